/* split: few query rows against many keys (decoding). Splits of the keys and values, then combined; for CPU devices.
 * cl/split/split.cl has the picture. This file chooses the length of a split, and between one launch and two. */
#include "base/checked_math.h"
#include "plan/code_programs.h"
#include "plan/kv_split.h"
#include "plan/register_file.h"
#include "plan/tile_choice.h"
#include "strategy/strategies.h"

#define ROWS_AT_ONCE 16 /* of a block; from there on fused_simd fills its lanes */
#define ROWS_MAX 128    /* of a key/value head, where fused_simd leaves compute units idle; of lists: any number */
#define SIMD_ROWS 32    /* that fused_simd's work-groups have, about */
#define GROUPS_A_UNIT 4 /* work-groups of whole heads, so that compute units finish together */
#define SPLIT_KEYS 512  /* weights that stay in the first cache; two streams long enough to prefetch */

/* Vectors of 16 sums that registers hold beside what is multiplied. They change no bit. */
static const int vector_sums[REGISTER_FILE_COUNT] = {
    [REGISTERS_16_OF_4] = 2,
    [REGISTERS_32_OF_4] = 4,
    [REGISTERS_16_OF_8] = 4,
    [REGISTERS_32_OF_16] = 16,
};

struct split_state {
    struct kernel *head; /* splits and combining in one launch; NULL: in two */
    struct kernel *attend, *combine;
    int split_keys;
};

static int applicable(struct ask *ask)
{
    const struct device *device = &ask->context->device;
    if (device->device_class == DEVICE_GPU) {
        return ask_declines(ask, "has one work-item a work-group, which leaves a GPU idle: split_simt is for those");
    }
    if (device->device_class != DEVICE_CPU && !ask->by_name) {
        return ask_declines(ask, "for CPU devices, and others only when asked for by name");
    }
    if (device->quirks & QUIRK_NO_LARGE_VECTORS) {
        return ask_declines(ask, "is made of wide vectors, which the device's compiler is not up to");
    }
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const int64_t blocks = p->batch * p->kv_heads * ceil_div(problem_head_rows(p), SIMD_ROWS);
    const int has_idle = blocks < (int64_t)device->compute_units,
              is_listed = (p->features & CLATTN_WITH_KEY_LISTS) != 0;
    const int64_t rows = problem_head_rows(p);
    if (!ask->by_name && !has_idle && !is_listed && rows > ROWS_AT_ONCE && rows <= ROWS_MAX) {
        return ask_declines(ask,
                            "%lld query rows a key/value head: more than %d of them, where there is work for every "
                            "compute unit, are faster in fused_simd; asked for by name it takes %d",
                            (long long)rows, ROWS_AT_ONCE, ROWS_MAX);
    }
    return kv_split_applicable(ask, SPLIT_KEYS, ROWS_AT_ONCE, ROWS_MAX);
}

static struct work work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const struct kv_row_blocks of_head = kv_row_blocks_of(p, ROWS_AT_ONCE);
    const double heads = (double)p->batch * (double)p->kv_heads * of_head.blocks, rows = (double)of_head.rows;
    const double keys = heads * (double)kv_keys_of(p, p->key_len);
    const size_t key_bytes = clattn_row_bytes(p->key_type, p->head_dim) +
                             clattn_row_bytes(p->value_type, p->head_dim_v);
    return (struct work){ .rate = RATE_SPLIT,
                          .multiply_adds = keys * (double)(p->head_dim + p->head_dim_v) * rows,
                          .bytes = keys * (double)key_bytes,
                          .groups = heads * ((double)kv_splits_of(p, p->key_len, SPLIT_KEYS) + rows) };
}

/* ---- tiles: how many sums registers hold, and how many launches there are; no bit depends on them ---- */

/* Whether a work-group for each key/value head keeps the device busy; then one launch does it all. */
static int heads_fill(const clattn_context *context, const clattn_problem *p)
{
    return kv_splits_of(p, p->key_len, SPLIT_KEYS) == 1 ||
           p->batch * p->kv_heads * kv_row_blocks_of(p, ROWS_AT_ONCE).blocks >=
               GROUPS_A_UNIT * (int64_t)context->device.compute_units;
}

static int tunable(struct ask *ask, struct tunable *tunable)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const enum register_file registers = register_file_of(ask);
    tunable->of = wisdom_class_of("split", p);
    tunable->table.sums = vector_sums[registers];
    tunable->table.launches = heads_fill(ask->context, p) ? 1 : 2;
    tunable->is_smallest = registers == REGISTERS_16_OF_4;
    return 1;
}

static int is_legal(struct ask *ask, const struct wisdom_tile *tile)
{
    const struct wisdom_tile split = { .sums = tile->sums, .launches = tile->launches };
    (void)ask;
    return wisdom_tile_equal(tile, &split) && (tile->launches == 1 || tile->launches == 2) &&
           (tile->sums == 2 || tile->sums == 4 || tile->sums == 8 || tile->sums == 16);
}

/* ---- plans and calls ------------------------------------------------------------------------ */

static void append_options(const struct clattn_plan *plan, const struct split_state *state,
                           const struct wisdom_tile *tile, struct text *options)
{
    const struct problem *problem = attention_problem(plan->problem);
    const clattn_problem *p = &problem->p;
    const struct kv_row_blocks of_head = kv_row_blocks_of(p, ROWS_AT_ONCE);
    append_type_options(problem, options);
    append_problem_options(problem, options);
    text_append(options, " -D GROUP=%d -D ROWS=%d -D ROW_BLOCKS=%d -D SPLIT_KEYS=%d -D FETCHES=%d -D ONE_LAUNCH=%d",
                (int)problem_group(p), of_head.rows, of_head.blocks, state->split_keys,
                plan->context->device.device_class == DEVICE_CPU, tile->launches == 1);
    append_kv_options(problem, options);
    text_append(options, " -D VECTOR_SUMS=%d", (int)tile->sums);
}

static clattn_status make_kernels(struct ask *ask, const struct text *options, int one_launch,
                                  struct split_state *state)
{
    if (one_launch) {
        return ask_kernel(ask, "split/split.cl", options, "split_head", &state->head, NULL);
    }
    const clattn_status status = ask_kernel(ask, "split/split.cl", options, "split_attend", &state->attend, NULL);
    return status == CLATTN_OK ? ask_kernel(ask, "split/split.cl", options, "split_combine", &state->combine, NULL)
                               : status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    struct split_state *state = plan->state;
    state->split_keys = SPLIT_KEYS;
    plan->workspace_bytes = kv_split_workspace_bytes(p, SPLIT_KEYS, ROWS_AT_ONCE);
    const struct wisdom_tile tile = tile_choose(ask, plan);
    const int one_launch = tile.launches == 1;
    const struct kv_row_blocks of_head = kv_row_blocks_of(p, ROWS_AT_ONCE);
    text_append(ask->explain,
                "  split: K/V splits of %d keys, blocks of %d rows (of a key/value head: %d)\n"
                "  registers: %d vectors of 16 sums\n  %s\n",
                SPLIT_KEYS, of_head.rows, of_head.blocks, (int)tile.sums,
                one_launch ? "one launch, a work-group for each block" : "two launches: splits, then rows");
    struct text options = TEXT_INIT;
    append_options(plan, state, &tile, &options);
    append_code_width(ask, &options);
    const clattn_status status = make_kernels(ask, &options, one_launch, state);
    text_free(&options);
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct split_state *state = plan->state;
    struct kv_split_call call;
    kv_split_call_of(plan, operands, state->split_keys, ROWS_AT_ONCE, &call);
    const size_t local[3] = { 1, 1, 1 };
    const size_t attend_global[3] = { (size_t)call.n_splits, call.heads, call.batch };
    const size_t combine_global[3] = { call.rows, call.heads, call.batch };
    if (state->head) {
        chain_final(chain);
        return kv_split_launch(&call, state->head, 2, attend_global + 1, local, chain);
    }
    clattn_status status = kv_split_launch(&call, state->attend, 3, attend_global, local, chain);
    if (status == CLATTN_OK) {
        chain_final(chain);
        status = kv_split_launch(&call, state->combine, 3, combine_global, local, chain);
    }
    return status;
}

const struct strategy strategy_split = {
    .operation = &operation_forward,
    .name = "split",
    .summary = "few query rows: a K/V split, combined by their sums; CPU devices",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS | CLATTN_FLAG_KEY_LISTS,
    .types = STRATEGY_32_BITS,
    .sum_roundings = 96, /* 32 + 16 + 3, row sums 32 + 4 + 3, the end */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct split_state),
    .plan = plan,
    .enqueue = enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
};
