/* split_simt: few query rows against many keys (decoding), for GPUs. cl/split_simt/split_simt.cl has the picture. This
 * file chooses how many rows a work-group computes at once and how many keys lie in local memory; neither changes
 * bits. */
#include "base/checked_math.h"
#include "base/stored_types.h"
#include "cl/split_simt/split_simt_layout.h"
#include "plan/kv_split.h"
#include "plan/row_blocks.h"
#include "strategy/strategies.h"

#define NAME "split_simt"
#define ROWS_MOST 128 /* of a key/value head: past that, tiles of rows read the keys less often */
#define RUN_BYTES 16

/* At most so many runs of a tile wait in the registers of each work-item. */
#define LOADS_MOST 8

static const int rows_at_once[] = { 8, 4, 2, 1 };
static const int tile_keys[] = { 64, 32 };

struct shape {
    int rows, keys; /* at once; of a tile */
    size_t local_bytes;
};

struct split_simt_state {
    struct kernel *attend, *combine;
    struct shape shape;
    size_t row_blocks; /* of a key/value head, which the kernel is built for */
};

/* Rows of a key/value head, or of a list of keys. */
static int rows_of(const clattn_problem *p)
{
    return kv_row_blocks_of(p, ROWS_MOST).rows;
}

/* Elements of a run: `codes` of a type whose elements are codes. */
static int run_of(clattn_type type, int codes)
{
    return type_is_float(type) ? RUN_BYTES / (int)clattn_type_size(type) : codes;
}

static int key_run_of(const clattn_problem *p)
{
    return run_of(p->key_type, SPLIT_SIMT_KEY_CODES);
}

static struct shape shape_of(const clattn_problem *p, int rows, int keys)
{
    const int run = key_run_of(p), value_run = run_of(p->value_type, SPLIT_SIMT_VALUE_CODES);
    const int head_dim = (int)p->head_dim;
    const size_t runs = (size_t)SPLIT_SIMT_AREA(keys, head_dim, run, value_run);
    const size_t floats = (size_t)SPLIT_SIMT_FLOATS(rows, keys, head_dim, run);
    return (struct shape){ rows, keys, runs * RUN_BYTES + floats * sizeof(float) };
}

/* How many rows' sums the registers have room for. Intel's GPUs share registers among the work-items of a sub-group:
 * those that may have one of 8 have no large register file, or need it for longer rows of keys. */
static int rows_that_fit(const struct device *device, int64_t runs)
{
    if (device->sub_group_size_least == 0) {
        return SPLIT_SIMT_ROWS_MOST;
    }
    return device->sub_group_size_least < 16 && tile_keys[1] * runs > LOADS_MOST / 2 * SPLIT_SIMT_ITEMS ? 2 : 4;
}

/* The largest of which `groups` work-groups fit in local memory; no more rows than there are, rounded up. */
static int find_shape_of(const struct device *device, const clattn_problem *p, int groups, struct shape *shape)
{
    const int64_t runs = ceil_div(p->head_dim, key_run_of(p));
    const int rows_most = rows_that_fit(device, runs);
    for (size_t i = 0; i < sizeof(rows_at_once) / sizeof(rows_at_once[0]); ++i) {
        const int rows = rows_at_once[i], is_too_many = rows > rows_most || (rows > 1 && rows / 2 >= rows_of(p));
        for (size_t k = 0; k < sizeof(tile_keys) / sizeof(tile_keys[0]) && !is_too_many; ++k) {
            const int is_last = k + 1 == sizeof(tile_keys) / sizeof(tile_keys[0]);
            *shape = shape_of(p, rows, tile_keys[k]);
            if ((is_last || tile_keys[k] * runs <= LOADS_MOST * SPLIT_SIMT_ITEMS) &&
                shape->local_bytes * (size_t)groups <= device->local_bytes) {
                return 1;
            }
        }
    }
    return 0;
}

/* Two work-groups a compute unit at least, so that one loads while the other computes, if they fit. */
static int find_shape(const struct device *device, const clattn_problem *p, struct shape *shape)
{
    return find_shape_of(device, p, 2, shape) || find_shape_of(device, p, 1, shape);
}

static int applicable(struct ask *ask)
{
    const struct device *device = &ask->context->device;
    struct shape shape;
    if (device->device_class != DEVICE_GPU && !ask->by_name) {
        return ask_declines(ask, "for GPUs, and other devices only when asked for by name: split is for CPUs");
    }
    if (!kv_split_applicable(ask, SPLIT_SIMT_KEYS, ROWS_MOST, ROWS_MOST)) {
        return 0;
    }
    return (device->work_group_limit >= SPLIT_SIMT_ITEMS && device->work_item_limit[0] >= SPLIT_SIMT_ITEMS &&
            find_shape(device, &attention_problem(ask->problem)->p, &shape)) ||
           row_tile_none_fits(ask);
}

static struct work work(struct ask *ask)
{
    const struct device *device = &ask->context->device;
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct shape shape;
    if (!find_shape(device, p, &shape)) {
        return WORK_UNKNOWN;
    }
    const struct kv_row_blocks of_head = kv_row_blocks_of(p, ROWS_MOST);
    const double rows = (double)of_head.rows, blocks = (double)ceil_div(of_head.rows, shape.rows);
    const double heads = (double)p->batch * (double)p->kv_heads * of_head.blocks;
    const double keys = heads * (double)kv_keys_of(p, p->key_len);
    const double key_bytes =
        (double)(clattn_row_bytes(p->key_type, p->head_dim) + clattn_row_bytes(p->value_type, p->head_dim_v));
    /* Blocks of rows after the first read from the cache. */
    return (struct work){ .rate = device->device_class == DEVICE_GPU ? RATE_SPLIT_SIMT : RATE_SPLIT_SIMT_OFF_GPU,
                          .multiply_adds = keys * (double)(p->head_dim + p->head_dim_v) * rows,
                          .bytes = keys * key_bytes * (0.8 + 0.2 * blocks) };
}

static void append_options(const struct device *device, const struct problem *problem, const struct shape *shape,
                           struct text *options)
{
    const clattn_problem *p = &problem->p;
    append_type_options(problem, options);
    append_problem_options(problem, options);
    text_append(options, " -D GROUP=%d -D ROWS=%d -D ROW_BLOCKS=%d -D ROWS_AT_ONCE=%d -D TILE_KEYS=%d",
                (int)problem_group(p), rows_of(p), kv_row_blocks_of(p, ROWS_MOST).blocks, shape->rows, shape->keys);
    append_kv_options(problem, options);
    if (device->device_class == DEVICE_GPU && device->sub_group_size_least && shape->rows > 2) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    const int rows = rows_of(&problem->p);
    struct split_simt_state *state = plan->state;
    find_shape(&ask->context->device, &problem->p, &state->shape); /* one fits: it is applicable */
    state->row_blocks = (size_t)ceil_div(rows, state->shape.rows);
    plan->workspace_bytes = kv_split_workspace_bytes(&problem->p, SPLIT_SIMT_KEYS, ROWS_MOST);
    text_append(ask->explain,
                "  K/V splits of %d keys, %d rows a key/value head, %d of them at once\n"
                "  tile: %d keys, %d work-items, %zu bytes of local memory\n",
                SPLIT_SIMT_KEYS, rows, state->shape.rows, state->shape.keys, SPLIT_SIMT_ITEMS,
                state->shape.local_bytes);
    struct text options = TEXT_INIT;
    append_options(&ask->context->device, problem, &state->shape, &options);
    clattn_status status =
        ask_kernel(ask, "split_simt/split_simt.cl", &options, "split_simt_attend", &state->attend, NULL);
    if (status == CLATTN_OK) {
        status = ask_kernel(ask, "split_simt/split_simt.cl", &options, "split_simt_combine", &state->combine, NULL);
    }
    text_free(&options);
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct split_simt_state *state = plan->state;
    struct kv_split_call call;
    kv_split_call_of(plan, operands, SPLIT_SIMT_KEYS, ROWS_MOST, &call);
    const size_t local[2] = { SPLIT_SIMT_ITEMS, 1 };
    const size_t attend_global[2] = { call.batch * (size_t)call.n_splits * local[0], call.heads * state->row_blocks };
    const size_t combine_global[2] = { call.batch * call.rows * local[0], call.heads };
    clattn_status status = kv_split_launch(&call, state->attend, 2, attend_global, local, chain);
    if (status == CLATTN_OK) {
        chain_final(chain);
        status = kv_split_launch(&call, state->combine, 2, combine_global, local, chain);
    }
    return status;
}

const struct strategy strategy_split_simt = {
    .operation = &operation_forward,
    .name = NAME,
    .summary = "few query rows: a K/V split over all compute units, combined by their sums; GPUs",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS | CLATTN_FLAG_KEY_LISTS,
    .types = STRATEGY_32_BITS,
    .sum_roundings = 560, /* 512 + 3, row sums and the end */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct split_simt_state),
    .plan = plan,
    .enqueue = enqueue,
};
