/* The gradients of queries, keys and values by cl/backward_mma.cl, on a GPU's matrix unit, for 16-bit types. Tiles
 * where numbers are not finite are done by cl/backward_simt.cl, what else is asked for by the kernels of plain. */
#include <stdlib.h>

#include "base/error.h"
#include "cl/backward_plain_layout.h"
#include "cl/mma_layout.h"
#include "plan/matrix_unit.h"
#include "strategy/backward_owners.h"
#include "strategy/strategies.h"

#define NAME "fused_mma"

/* Two sums of so many columns, and what is owned, are as much as registers hold; deeper ones have a kernel for each
 * sum, that of keys and that of values. */
#define COLUMNS_OF_BOTH 64

#define KERNELS 3 /* of rows; of keys and values, or of keys; of values */

struct mma_state {
    struct backward_plain plain;
    struct backward_simt simt;
    const struct matrix_unit *unit;
    struct row_tile tile;
    struct kernel *kernels[KERNELS];
    int64_t redo_at[OWNERS], redo_blocks[OWNERS]; /* in the workspace, in floats; of a plane */
    double launch_work_most;
};

static int has_both_sums(const struct row_tile *tile)
{
    return tile->columns <= COLUMNS_OF_BOTH;
}

/* ---- choice ------------------------------------------------------------------------------------ */

static struct row_tile tile_of(const struct matrix_unit *unit, const struct tile *tile, const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    const int columns = matrix_columns(p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v, tile->group_columns);
    const int padding = MMA_PADDING_BYTES / 2, owned = MMA_TILE(tile->rows, columns, padding);
    const int keys = MMA_TILE(tile->keys, columns, padding);
    /* Twice the two tensors that are walked over, in the larger layout; sums in float32 on their way out. */
    const int walked = 2 * (keys + MMA_LARGER(keys, MMA_TILE(columns, tile->keys, padding)));
    const int sums = 2 * tile->rows * (columns + 4);
    const int elements = MMA_LARGER(MMA_LARGER(walked, owned), sums);
    struct row_tile of = { *tile, columns, columns, (size_t)(2 * elements) + (size_t)(16 * tile->keys) + 64 };
    if (problem->flags & CLATTN_FLAGS_FINISHING) {
        of.local_bytes += sizeof(float) * (size_t)(tile->rows * tile->keys);
    }
    if (matrix_unit_is_emulated(unit)) {
        of.local_bytes += (size_t)(MMA_SCRATCH_BYTES * tile->work_items);
    }
    return of;
}

static int find_tile(const struct device *device, const struct matrix_unit *unit, const struct problem *problem,
                     int *rank, struct row_tile *of)
{
    const clattn_problem *p = &problem->p;
    const int64_t head_dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    const struct tile *tile;
    for (; (tile = tuning_find(unit->gradient_tiles, DEVICE_GPU, head_dim, *rank)) != NULL; ++*rank) {
        *of = tile_of(unit, tile, problem);
        if (of->columns >= head_dim && row_tile_fits(device, of)) {
            return 1;
        }
    }
    return 0;
}

/* Who keeps gradients of 16-bit numbers in float32 wants what float32 has: bfloat16's parts have 16 bits of a pair, and
 * float16's no more than 2^-37 of the largest of its key or row, which some columns may not have. Which gradients are
 * wanted is not asked, for no bit may depend on that (as in fused_amx). */
static int keeps_float32(const struct backward_problem *b, struct text *why)
{
    const clattn_problem *p = &b->attention.p;
    if (b->dquery_type != CLATTN_FLOAT32) {
        return 1;
    }
    if (p->type == CLATTN_FLOAT16) {
        text_append(why,
                    "gradients of float16 in float32: float16, in which weights and dZ meet the other operand, has "
                    "too few exponents");
        return 0;
    }
    if (!p->allow_rounded_weights && !b->attention.any.strategy_name[0]) {
        text_append(why, "gradients in float32: with allow_rounded_weights, or when asked for by name, since weights "
                         "and dZ have two parts of the type");
        return 0;
    }
    return 1;
}

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct backward_problem *b = backward_problem(any);
    const struct problem *problem = &b->attention;
    const clattn_problem *p = &problem->p;
    const struct matrix_unit *unit;
    struct row_tile tile;
    int rank = 0;
    if (p->type != CLATTN_FLOAT16 && p->type != CLATTN_BFLOAT16) {
        text_append(why, "matrix units multiply gradients of 16-bit types");
    } else if (problem_mixes_types(problem)) {
        text_append(why, "takes queries, keys, values and outputs of one type");
    } else if (!keeps_float32(b, why) || !backward_owners_wanted(b, why)) {
        return 0;
    } else if ((unit = matrix_unit_find(context, problem, why)) == NULL) {
        return 0;
    } else if (!unit->gradient_tiles) {
        text_append(why, "this matrix unit multiplies no gradients yet");
    } else if (unit->is_untried && !context->verdicts && !problem->any.strategy_name[0]) {
        text_append(why,
                    "gradients have not run on such a matrix unit yet: with the self-check, or when asked for by name");
    } else if (!tuning_find(unit->gradient_tiles, DEVICE_GPU, p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v,
                            0)) {
        text_append(why, "head_dim %lld, head_dim_v %lld: more than this matrix unit's gradients have registers for",
                    (long long)p->head_dim, (long long)p->head_dim_v);
    } else if (!find_tile(&context->device, unit, problem, &rank, &tile)) {
        row_tile_none_fits(&context->device, why);
    } else {
        return backward_simt_fits(&context->device, p, why) && backward_arguments_fit(&context->device, problem, why);
    }
    return 0;
}

/* Products that pairs are made of, and those that add them up in two parts. */
static double pair_work(const struct row_tile *tile, int of_kernel)
{
    static const double products[KERNELS] = { 3, 3, 2 };
    return (of_kernel == 1 && has_both_sums(tile) ? 4 : products[of_kernel]) * tile->columns;
}

/* Linear in batch and heads, with the same constant as the other strategies', so that the choice, and with it the bits,
 * does not depend on them. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    const struct matrix_unit *unit = matrix_unit_find(context, problem, NULL);
    struct row_tile tile;
    int rank = 0;
    if (!unit || !unit->gradient_tiles || !find_tile(&context->device, unit, problem, &rank, &tile)) {
        return 1e30;
    }
    const double pairs = backward_owner_pairs(p, tile.tile.rows, tile.tile.rows);
    const double work = pair_work(&tile, 0) + pair_work(&tile, 1) + (has_both_sums(&tile) ? 0 : pair_work(&tile, 2));
    const double rate = matrix_unit_is_emulated(unit) ? 1e4 : 2e8;
    return 0.05 + pairs * work / rate / (double)context->device.compute_units;
}

/* ---- plan -------------------------------------------------------------------------------------- */

static clattn_status build_kernel(struct clattn_plan *plan, struct mma_state *state, int n)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const struct problem *problem = &b->attention;
    const struct tile *tile = &state->tile.tile;
    const int sums = n == 2                                  ? OWNER_WANTS_DVALUE
                     : n == 1 && has_both_sums(&state->tile) ? OWNER_WANTS_BOTH
                                                             : OWNER_WANTS_FIRST;
    struct text options = TEXT_INIT;
    matrix_unit_append_options(state->unit, &options);
    text_append(&options,
                " -D TYPE=%d -D FEATURES=0x%xu -D STRIDED_COLUMNS=%d -D TILE_ROWS=%d -D TILE_KEYS=%d -D WORK_ITEMS=%d "
                "-D DEPTH=%d -D COLUMNS=%d -D OWNS_KEYS=%d -D SUMS=%d -D OWN_TYPE=%d -D DVALUE_TYPE=%d -D RUNS=%d",
                (int)problem->p.type, problem->flags & ~ROW_BLOCK_RUN_TIME_FEATURES, problem->p.strided_columns != 0,
                tile->rows, tile->keys, tile->work_items, state->tile.depth, state->tile.columns, n > 0, sums,
                (int)(n > 0 ? b->dkey_type : b->dquery_type), (int)b->dvalue_type,
                backward_owner_has_runs(&problem->p, n > 0 ? OWNED_KEYS : OWNED_ROWS));
    if (problem->p.allow_rounded_weights) {
        text_append(&options, " -D WEIGHT_PARTS=1");
    }
    if (problem->flags & CLATTN_FLAG_BIAS) {
        text_append(&options, " -D BIAS_TYPE=%d", (int)problem->p.bias_type);
    }
    clattn_status status = options.failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan")
                                          : CLATTN_OK;
    if (status == CLATTN_OK) {
        status = program_kernel(plan->context, "backward_mma.cl", options.data, "mma_gradients", &state->kernels[n]);
    }
    text_free(&options);
    return status;
}

/* *limit: work-items that the device runs of all of them. */
static clattn_status build_kernels(struct clattn_plan *plan, struct mma_state *state, size_t *limit)
{
    const int kernels = has_both_sums(&state->tile) ? 2 : KERNELS;
    clattn_status status = CLATTN_OK;
    *limit = SIZE_MAX;
    for (int n = 0; n < kernels && status == CLATTN_OK; ++n) {
        size_t most = 0;
        status = build_kernel(plan, state, n);
        status = status == CLATTN_OK ? kernel_work_group_limit(state->kernels[n], &most) : status;
        *limit = most < *limit ? most : *limit;
    }
    return status;
}

/* Two numbers for each block of rows, and each of keys, behind what the others have in the workspace. */
static void measure_redo(struct clattn_plan *plan, struct mma_state *state)
{
    const clattn_problem *p = &backward_problem(plan->problem)->attention.p;
    const int64_t planes[OWNERS] = { p->batch * p->query_heads, p->batch * p->kv_heads };
    const int64_t lengths[OWNERS] = { p->query_len, p->key_len };
    for (int owned = 0; owned < OWNERS; ++owned) {
        state->redo_at[owned] = (int64_t)(plan->workspace_bytes / sizeof(float));
        state->redo_blocks[owned] = row_blocks_of(lengths[owned], REDO_ROWS);
        plan->workspace_bytes += sizeof(float) * (size_t)(2 * planes[owned] * state->redo_blocks[owned]);
    }
}

static void describe(const struct mma_state *state, const struct problem *problem, struct text *explain)
{
    const struct row_tile *tile = &state->tile;
    matrix_unit_describe(state->unit, problem->p.type, explain);
    text_append(explain,
                "  tile: %d rows (or keys) x %d keys (or rows), %d work-items, %zu bytes of local memory; dkey and "
                "dvalue %s\n  tiles with numbers that are not finite: by the kernels of fused_simt\n",
                tile->tile.rows, tile->tile.keys, tile->tile.work_items, tile->local_bytes,
                has_both_sums(tile) ? "at once" : "one after the other");
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    clattn_context *context = plan->context;
    const struct problem *problem = attention_problem(plan->problem);
    struct mma_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    plan->weight_rounding = matrix_weight_rounding(&problem->p);
    state->unit = matrix_unit_find(context, problem, NULL);
    state->launch_work_most = MATRIX_LAUNCH_WORK_PER_UNIT * (double)context->device.compute_units;
    size_t limit = 0;
    clattn_status status = backward_plain_measure(plan, BACKWARD_BLOCK);
    if (status == CLATTN_OK) {
        measure_redo(plan, state);
        status = backward_plain_build(plan, backward_scalars_wanted(backward_problem(plan->problem)), &state->plain);
    }
    if (status == CLATTN_OK) {
        status = backward_simt_build(plan, &state->simt, NULL);
    }
    for (int rank = 0;
         status == CLATTN_OK && state->unit && find_tile(&context->device, state->unit, problem, &rank, &state->tile);
         ++rank) {
        status = build_kernels(plan, state, &limit);
        if (status == CLATTN_OK && limit >= (size_t)state->tile.tile.work_items) {
            describe(state, problem, explain);
            return CLATTN_OK;
        }
    }
    return status == CLATTN_OK ? row_tile_none_runs(NAME, limit) : status;
}

/* ---- launches ---------------------------------------------------------------------------------- */

static clattn_status run_kernel(const struct backward_run *r, const struct mma_state *state, int n, enum owned owned,
                                const clattn_owner_part *part)
{
    const struct tile *tile = &state->tile.tile;
    const struct owner_kernel kernel = { state->kernels[n],          tile->rows,
                                         tile->work_items,           1,
                                         pair_work(&state->tile, n), state->launch_work_most };
    return backward_run_owner(r, &kernel, owned, *part);
}

/* The kernels of the matrix unit, then those that do what these left. */
static clattn_status run_owner(const struct backward_run *r, const void *of, enum owned owned,
                               const clattn_owner_part *part)
{
    const struct mma_state *state = of;
    const int of_keys = owned == OWNED_KEYS, both = has_both_sums(&state->tile);
    clattn_status status = CLATTN_OK;
    if (!of_keys || both || part->wants & OWNER_WANTS_FIRST) {
        status = run_kernel(r, state, of_keys, owned, part);
    }
    if (status == CLATTN_OK && of_keys && !both && part->wants & OWNER_WANTS_DVALUE) {
        status = run_kernel(r, state, 2, owned, part);
    }
    return status == CLATTN_OK ? backward_simt_run(r, &state->simt, owned, part) : status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct mma_state *state = plan->state;
    clattn_owner_part parts[OWNERS] = { { 0 }, { 0 } };
    for (int owned = 0; owned < OWNERS; ++owned) {
        parts[owned].redo_at = state->redo_at[owned];
        parts[owned].redo_blocks = (int)state->redo_blocks[owned];
    }
    return backward_owners_enqueue(plan, operands, chain, &state->plain, state, run_owner, parts);
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_backward_mma = {
    .operation = &operation_backward,
    .name = NAME,
    .summary = "no score matrix in memory; 16-bit types on a GPU's matrix unit",
    .knows = CLATTN_FLAGS_OF_ALL,
    .sum_roundings = 144, /* 2 (64 + 4) */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
