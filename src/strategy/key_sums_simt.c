/* key_sums_simt: cl/key_sums/key_sums_simt.cl, tiles through local memory, for GPUs. Its tiles are fused_simt's. */
#include "base/checked_math.h"
#include "cl/simt/simt_layout.h"
#include "plan/simt_tile.h"
#include "strategy/key_sums_run.h"
#include "strategy/strategies.h"

#define NAME "fused_simt"

struct key_sums_simt {
    struct kernel *kernel, *largest;
    struct simt_shape shape;
};

/* There are no values: a column. */
static const struct row_tile *find(struct ask *ask, void *of, int *rank)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct key_sums_simt *state = of;
    const int is_double = p->type == CLATTN_FLOAT64;
    const struct tile *tile;
    for (; (tile = tuning_find(is_double ? NAME " double" : NAME, DEVICE_GPU, 0, *rank)) != NULL; ++*rank) {
        state->shape = simt_shape_of(tile, p->head_dim, 1, is_double ? 8 : 4);
        if (row_tile_fits(&ask->context->device, &state->shape.of)) {
            return &state->shape.of;
        }
    }
    return NULL;
}

static int applicable(struct ask *ask)
{
    struct key_sums_simt state;
    int rank = 0;
    return key_sums_is_served(ask) && (find(ask, &state, &rank) || row_tile_none_fits(ask));
}

/* Multiply-adds of a tile of keys and all rows of its head. */
static double tile_work(const struct row_tile *tile, double rows)
{
    return (double)tile->depth * (double)tile->tile.keys * (rows + (double)tile->tile.rows);
}

static struct work work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct key_sums_simt state;
    int rank = 0;
    const struct row_tile *tile = find(ask, &state, &rank);
    if (!tile) {
        return WORK_UNKNOWN;
    }
    const double tiles = (double)p->batch * (double)p->query_heads * (double)ceil_div(p->key_len, tile->tile.keys);
    return (struct work){ .rate = ask->context->device.device_class == DEVICE_GPU ? RATE_SIMT : RATE_SIMT_OFF_GPU,
                          .multiply_adds = tiles * tile_work(tile, key_sums_rows(ask)) };
}

static clattn_status build(struct ask *ask, void *of, size_t *limit)
{
    const struct problem *problem = attention_problem(ask->problem);
    struct key_sums_simt *state = of;
    struct text options = TEXT_INIT;
    simt_append_options(problem, &state->shape, &options);
    append_kv_options(problem, &options);
    text_append(&options, " -D RUNS=0 -D COLUMN_RUNS=%d", HAS_COLUMN_RUNS(problem->p.head_dim));
    key_sums_append_wants(ask->problem, &options);
    const clattn_status status =
        ask_kernel(ask, "key_sums/key_sums_simt.cl", &options, "key_sums_simt", &state->kernel, limit);
    text_free(&options);
    return status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    struct key_sums_simt *state = plan->state;
    clattn_status status = row_tile_build(ask, NAME, find, build, state);
    if (status == CLATTN_OK) {
        status = key_sums_measure(plan, ceil_div(p->key_len, state->shape.of.tile.keys));
    }
    if (status == CLATTN_OK) {
        text_append(ask->explain, "  tile: %d keys x %d queries, %d work-items, %zu bytes of local memory\n",
                    state->shape.of.tile.keys, state->shape.of.tile.rows, state->shape.of.tile.work_items,
                    state->shape.of.local_bytes);
        status = key_sums_build_largest(ask, &state->largest);
    }
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct key_sums_simt *state = plan->state;
    const struct tile *tile = &state->shape.of.tile;
    struct key_sums_call call;
    key_sums_call_of(plan, operands, &call);
    const clattn_params *p = &call.given.params;
    const double work_most = SIMT_LAUNCH_WORK_PER_UNIT * (double)plan->context->device.compute_units;
    const clattn_status status = key_sums_launch(&call, state->kernel, tile->keys, (size_t)tile->work_items,
                                                 work_most / tile_work(&state->shape.of, (double)p->query_len),
                                                 !state->largest, chain);
    return status == CLATTN_OK ? key_sums_largest(&call, state->largest, ceil_div(p->key_len, tile->keys), chain)
                               : status;
}

const struct strategy strategy_key_sums_simt = {
    .operation = &operation_key_sums,
    .name = NAME,
    .summary = "no matrix of weights in memory; tiles through local memory, for GPUs",
    .knows = KEY_SUMS_KNOW,
    .takes = ROW_BLOCKS_TAKE,
    .types = STRATEGY_64_BITS,
    .sum_roundings = 68, /* a work-item's rows, totals, its neighbours */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct key_sums_simt),
    .plan = plan,
    .enqueue = enqueue,
};
