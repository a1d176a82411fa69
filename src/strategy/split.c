/* split: few query rows against many keys (decoding). Splits of the keys and values, then combined; for CPU devices.
 * cl/split.cl has the picture. This file chooses the length of a split, and between one launch and two. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/kv_split.h"
#include "plan/register_file.h"
#include "plan/tile_choice.h"
#include "strategy/strategies.h"

#define ROWS_MAX 16     /* of a key/value head; from there on fused_simd fills its lanes */
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

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct problem *problem = attention_problem(any);
    if (context->device.device_class == DEVICE_GPU) {
        text_append(why, "has one work-item a work-group, which leaves a GPU idle: split_simt is for those");
        return 0;
    }
    if (context->device.device_class != DEVICE_CPU && strcmp(problem->any.strategy_name, "split") != 0) {
        text_append(why, "for CPU devices, and others only when asked for by name");
        return 0;
    }
    if (context->device.quirks & QUIRK_NO_LARGE_VECTORS) {
        text_append(why, "is made of wide vectors, which the device's compiler is not up to");
        return 0;
    }
    return kv_split_applicable(context, problem, SPLIT_KEYS, ROWS_MAX, why);
}

/* Linear in batch and heads, as that of fused_simd is. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    const double heads = (double)p->batch * (double)p->kv_heads, rows = (double)kv_split_rows_of(p);
    double keys = heads * (double)p->key_len, elements = keys * (double)(p->head_dim + p->head_dim_v);
    double bytes =
        keys * (double)(clattn_row_bytes(p->key_type, p->head_dim) + clattn_row_bytes(p->value_type, p->head_dim_v));
    double groups = heads * ((double)kv_splits_of(p, p->key_len, SPLIT_KEYS) + rows);
    /* About 33 GB/s and 100 multiply-adds a nanosecond for each compute unit, a microsecond a work-group. */
    return 0.02 + (bytes / 3.3e7 + elements * rows / 1e8 + groups * 1e-3) / (double)context->device.compute_units;
}

/* ---- tiles: how many sums registers hold, and how many launches there are; no bit depends on them ---- */

/* Whether a work-group for each key/value head keeps the device busy; then one launch does it all. */
static int heads_fill(const clattn_context *context, const clattn_problem *p)
{
    return kv_splits_of(p, p->key_len, SPLIT_KEYS) == 1 ||
           p->batch * p->kv_heads >= GROUPS_A_UNIT * (int64_t)context->device.compute_units;
}

static int tunable(const clattn_context *context, const struct any_problem *any, struct tunable *tunable)
{
    const clattn_problem *p = &attention_problem(any)->p;
    const enum register_file registers = register_file_of(context);
    tunable->of = wisdom_class_of("split", p);
    tunable->table.sums = vector_sums[registers];
    tunable->table.launches = heads_fill(context, p) ? 1 : 2;
    tunable->is_smallest = registers == REGISTERS_16_OF_4;
    return 1;
}

static int is_legal(const clattn_context *context, const struct any_problem *any, const struct wisdom_tile *tile)
{
    const struct wisdom_tile split = { .sums = tile->sums, .launches = tile->launches };
    (void)context;
    (void)any;
    return wisdom_tile_equal(tile, &split) && (tile->launches == 1 || tile->launches == 2) &&
           (tile->sums == 2 || tile->sums == 4 || tile->sums == 8 || tile->sums == 16);
}

/* ---- plans and calls ------------------------------------------------------------------------ */

static void append_options(const struct clattn_plan *plan, const struct split_state *state,
                           const struct wisdom_tile *tile, struct text *options)
{
    const struct problem *problem = attention_problem(plan->problem);
    const clattn_problem *p = &problem->p;
    append_type_options(problem, options);
    append_problem_options(problem, options);
    text_append(options, " -D GROUP=%d -D ROWS=%d -D SPLIT_KEYS=%d -D FETCHES=%d -D ONE_LAUNCH=%d",
                (int)problem_group(p), kv_split_rows(p), state->split_keys,
                plan->context->device.device_class == DEVICE_CPU, tile->launches == 1);
    append_kv_options(problem, options);
    text_append(options, " -D VECTOR_SUMS=%d", (int)tile->sums);
}

static clattn_status make_kernels(clattn_context *context, const char *options, int one_launch,
                                  struct split_state *state)
{
    if (one_launch) {
        return program_kernel(context, "split.cl", options, "split_head", &state->head);
    }
    const clattn_status status = program_kernel(context, "split.cl", options, "split_attend", &state->attend);
    return status == CLATTN_OK ? program_kernel(context, "split.cl", options, "split_combine", &state->combine)
                               : status;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    struct split_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    state->split_keys = SPLIT_KEYS;
    plan->workspace_bytes = kv_split_workspace_bytes(p, SPLIT_KEYS);
    const struct wisdom_tile tile = tile_choose(plan, explain);
    const int one_launch = tile.launches == 1;
    text_append(explain, "  split: K/V splits of %d keys, %d rows each\n", SPLIT_KEYS, kv_split_rows(p));
    text_append(explain, "  registers: %d vectors of 16 sums\n", (int)tile.sums);
    text_append(explain, "  %s\n",
                one_launch ? "one launch, a work-group for each key/value head" : "two launches: splits, then rows");
    struct text options = TEXT_INIT;
    append_options(plan, state, &tile, &options);
    const clattn_status status = options.failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan")
                                                : make_kernels(plan->context, options.data, one_launch, state);
    text_free(&options);
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct split_state *state = plan->state;
    struct kv_split_call call;
    kv_split_call_of(plan, operands, state->split_keys, &call);
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

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_split = {
    .operation = &operation_forward,
    .name = "split",
    .summary = "few query rows: a K/V split, combined by their sums; CPU devices",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .sum_roundings = 96, /* 32 + 16 + 3, row sums 32 + 4 + 3, the end */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
    .destroy = destroy,
};
