/* fused_simt: one kernel, tiles through local memory, for GPUs. The tile comes from the tuning table; its
 * sizes in local memory are those of cl/simt_tile.clh. */
#include <stdlib.h>
#include <string.h>

#include "../attention_arguments.h"
#include "../error.h"
#include "../tuning.h"
#include "strategies.h"

#define NAME "fused_simt"

/* Of cl/simt_tile.clh. */
#define DEPTH 16
#define PADDING 4
#define RUN_TIME_FEATURES                                                                              \
    (CLATTN_FLAG_KEY_LENGTHS | CLATTN_FLAG_VARLEN | CLATTN_FLAG_SINKS | CLATTN_FLAG_LSE)

/* Multiply-adds that one launch may do on one compute unit: at most about a second on a slow device, so
 * that a watchdog does not strike. Longer calls are cut along heads and row blocks, which changes no
 * bit of the result. */
#define LAUNCH_WORK_PER_UNIT 4e9

/* Kernels count rows and keys of a tile past the last one in int. */
#define LENGTH_MAX (INT32_MAX - 4096)

struct shape {
    struct tile tile;
    int columns;     /* output columns a work-group */
    int keys_staged; /* values in local memory at once */
    size_t local_bytes;
};

struct simt_state {
    struct kernel *kernel;
    struct shape shape;
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Output columns come in few sizes, so that there are few programs: as many a work-item as is in this list. */
static int column_count(const struct tile *tile, int64_t head_dim_v)
{
    static const int a_work_item[] = { 1, 2, 4, 6, 8, 12, 16 };
    const int across = tile->keys / tile->unroll_score;
    int columns = across;
    for (size_t i = 0; i < sizeof(a_work_item) / sizeof(a_work_item[0]); ++i) {
        if (a_work_item[i] <= tile->unroll_mix && columns < head_dim_v) {
            columns = across * a_work_item[i];
        }
    }
    return columns;
}

/* Stages for scores and for values share their memory: as many values as fill about what scores take, a
 * power of 2, and enough that each work-item has one to load. */
static struct shape shape_of(const struct tile *tile, const struct problem *problem)
{
    const int across = tile->keys / tile->unroll_score;
    struct shape shape = { .tile = *tile, .columns = column_count(tile, problem->p.head_dim_v) };
    const int row_pitch = tile->rows + PADDING, key_pitch = tile->keys + PADDING;
    const int score_stage = DEPTH * (row_pitch + key_pitch);
    const int span = shape.columns % 32 == 0 && tile->work_items >= 32 ? 32 : across;
    shape.keys_staged = tile->work_items / span;
    while (shape.keys_staged < tile->keys &&
           2 * shape.keys_staged * shape.columns <= score_stage + score_stage / 4) {
        shape.keys_staged *= 2;
    }
    const int value_stage = shape.keys_staged * shape.columns;
    const int stage = score_stage > value_stage ? score_stage : value_stage;
    const size_t real_bytes = problem->p.type == CLATTN_FLOAT64 ? 8 : 4;
    shape.local_bytes = real_bytes * (size_t)(stage + (tile->keys + across) * row_pitch) + 64;
    return shape;
}

/* The next tile from *rank on that the device has room for; 0: there is none. */
static int find_shape(const struct device *device, const struct problem *problem, int *rank,
                      struct shape *shape)
{
    const struct tile *tile;
    for (; (tile = tuning_find(NAME, DEVICE_GPU, problem->p.head_dim_v, *rank)) != NULL; ++*rank) {
        const size_t items = (size_t)tile->work_items;
        *shape = shape_of(tile, problem);
        if (items <= device->work_group_limit && items <= device->work_item_limit[0] &&
            shape->local_bytes <= device->local_bytes) {
            return 1;
        }
    }
    return 0;
}

static int applicable(const clattn_context *context, const struct problem *problem, struct text *why)
{
    const clattn_problem *p = &problem->p;
    const struct device *device = &context->device;
    struct shape shape;
    int rank = 0;
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        text_append(why, "it never has the attention weights in memory");
    } else if (p->type == CLATTN_FLOAT64 && !device->has_fp64) {
        text_append(why, "the device has no float64");
    } else if (device->parameter_bytes < sizeof(clattn_params) + 128) {
        text_append(why, "the device takes only %zu bytes of kernel arguments", device->parameter_bytes);
    } else if (p->query_len > LENGTH_MAX || p->key_len > LENGTH_MAX) {
        text_append(why, "query_len and key_len must be at most %d", LENGTH_MAX);
    } else if (!find_shape(device, problem, &rank, &shape)) {
        text_append(why, "no tile fits in %llu bytes of local memory and %zu work-items a work-group",
                    (unsigned long long)device->local_bytes, device->work_group_limit);
    } else {
        return 1;
    }
    return 0;
}

static int64_t blocks_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

/* Multiply-adds of one block of rows of one head, all its column slices. */
static double block_work(const struct problem *problem, const struct shape *shape, int64_t key_len)
{
    const double slices = (double)blocks_of(problem->p.head_dim_v, shape->columns);
    const double columns = (double)(blocks_of(problem->p.head_dim, DEPTH) * DEPTH + shape->columns);
    return slices * columns * (double)shape->tile.rows * (double)(key_len + shape->tile.keys);
}

static double cost_ms(const clattn_context *context, const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    struct shape shape;
    int rank = 0;
    if (!find_shape(&context->device, problem, &rank, &shape)) {
        return 1e30;
    }
    const double blocks = (double)blocks_of(p->query_len, shape.tile.rows) * (double)p->batch *
                          (double)p->query_heads;
    const double work = blocks * block_work(problem, &shape, p->key_len) * (p->causal ? 0.6 : 1);
    /* Multiply-adds a millisecond and compute unit: a GPU's is a core of 64 lanes or more; elsewhere the
     * barriers cost more than the tiles save. */
    const double rate = context->device.device_class == DEVICE_GPU ? 2e7 : 5e4;
    return 0.02 + work / rate / (double)context->device.compute_units;
}

/* What makes a vendor's compiler give each work-item the registers that the tile needs, and no more than lets
 * two work-groups share a core; make check-offline shows the outcome. */
static void vendor_options(const struct device *device, const struct problem *problem,
                           const struct shape *shape, struct text *options)
{
    const uint32_t wants_large = CLATTN_FLAG_BIAS | CLATTN_FLAG_SLOPES | CLATTN_FLAG_SOFTCAP |
                                 CLATTN_FLAG_DROPOUT;
    if (device->device_class != DEVICE_GPU) {
        return;
    }
    if (device->sub_group_size_least > 0) {
        text_append(options, " -D SUB_GROUP_SIZE=%zu", device->sub_group_size_least);
        if (device->sub_group_size_least >= 16 && problem->flags & wants_large) {
            text_append(options, " -cl-intel-256-GRF-per-thread");
        }
    }
    if (strcmp(device->platform_name, "NVIDIA CUDA") == 0 && shape->tile.work_items >= 256 &&
        !(problem->flags & CLATTN_FLAG_DROPOUT)) {
        text_append(options, " -cl-nv-maxrregcount=%d", 32768 / shape->tile.work_items);
    }
}

static clattn_status build(clattn_context *context, const struct problem *problem,
                           const struct shape *shape, struct kernel **kernel)
{
    struct text text = TEXT_INIT;
    text_append(&text,
                "-D TYPE=%d -D FEATURES=0x%xu -D STRIDED_COLUMNS=%d -D TILE_ROWS=%d -D TILE_KEYS=%d "
                "-D ITEM_KEYS=%d -D WORK_ITEMS=%d -D COLUMNS=%d -D KEYS_STAGED=%d",
                (int)problem->p.type, problem->flags & ~RUN_TIME_FEATURES,
                problem->p.strided_columns != 0, shape->tile.rows, shape->tile.keys,
                shape->tile.unroll_score, shape->tile.work_items, shape->columns, shape->keys_staged);
    if (problem->flags & CLATTN_FLAG_BIAS) {
        text_append(&text, " -D BIAS_TYPE=%d", (int)problem->p.bias_type);
    }
    vendor_options(&context->device, problem, shape, &text);
    char *options = text_take(&text);
    if (!options) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options");
    }
    clattn_status status = program_kernel(context, "fused_simt.cl", options, NAME, kernel);
    free(options);
    return status;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    clattn_context *context = plan->context;
    struct simt_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    struct shape *shape = &state->shape;
    size_t limit = 0;
    for (int rank = 0; find_shape(&context->device, &plan->problem, &rank, shape); ++rank) {
        clattn_status status = build(context, &plan->problem, shape, &state->kernel);
        if (status == CLATTN_OK) {
            status = kernel_work_group_limit(state->kernel, &limit);
        }
        if (status != CLATTN_OK) {
            return status;
        }
        if (limit >= (size_t)shape->tile.work_items) {
            text_append(explain,
                        "  tile: %d queries x %d keys, %d work-items, %d of %d output columns a "
                        "work-group, %zu bytes of local memory\n",
                        shape->tile.rows, shape->tile.keys, shape->tile.work_items,
                        smaller(shape->columns, (int)plan->problem.p.head_dim_v),
                        (int)plan->problem.p.head_dim_v, shape->local_bytes);
            return CLATTN_OK;
        }
    }
    return error_set(CLATTN_UNSUPPORTED,
                     "fused_simt: the device runs at most %zu work-items of its smallest tile; choose "
                     "another strategy",
                     limit);
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct call *call,
                             const clattn_params *params, struct chain *chain)
{
    const struct simt_state *state = plan->state;
    const struct shape *shape = &state->shape;
    const int64_t heads = (int64_t)params->batch * params->query_heads;
    const int64_t blocks = blocks_of(params->query_len, shape->tile.rows);
    const double work_max = LAUNCH_WORK_PER_UNIT * (double)plan->context->device.compute_units;
    const double blocks_at_once = work_max / block_work(&plan->problem, shape, call->key_len);
    const int64_t block_step = blocks_at_once >= (double)blocks ? blocks
                               : blocks_at_once < 1             ? 1
                                                                : (int64_t)blocks_at_once;
    const double heads_at_once = blocks_at_once / (double)blocks;
    const int64_t head_step = heads_at_once >= (double)heads ? heads
                              : heads_at_once < 1            ? 1
                                                             : (int64_t)heads_at_once;
    const size_t slices = (size_t)blocks_of(params->head_dim_v, shape->columns);
    clattn_status status = CLATTN_OK;
    for (int64_t head = 0; head < heads && status == CLATTN_OK; head += head_step) {
        for (int64_t block = 0; block < blocks && status == CLATTN_OK; block += block_step) {
            cl_int first_row = (cl_int)(block * shape->tile.rows), first_head = (cl_int)head;
            cl_int launch_blocks = (cl_int)(blocks - block < block_step ? blocks - block : block_step);
            size_t head_count = (size_t)(heads - head < head_step ? heads - head : head_step);
            size_t local[3] = { (size_t)shape->tile.work_items, 1, 1 };
            size_t global[3] = { (size_t)launch_blocks * local[0], slices, head_count };
            struct launch_argument arguments[ATTENTION_ARGUMENT_COUNT + 3];
            attention_arguments(params, call, arguments);
            arguments[ATTENTION_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(first_row);
            arguments[ATTENTION_ARGUMENT_COUNT + 1] = (struct launch_argument)ARGUMENT(first_head);
            arguments[ATTENTION_ARGUMENT_COUNT + 2] = (struct launch_argument)ARGUMENT(launch_blocks);
            if (head + head_step >= heads && block + block_step >= blocks) {
                chain_final(chain);
            }
            status = launch(chain, state->kernel, 3, global, local, ATTENTION_ARGUMENT_COUNT + 3,
                            arguments);
        }
    }
    return status;
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_fused_simt = {
    .name = NAME,
    .summary = "no score matrix in memory; tiles through local memory, for GPUs",
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
