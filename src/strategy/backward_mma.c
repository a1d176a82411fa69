/* The gradients of queries, keys and values by cl/backward_gpu/backward_mma.cl, on a GPU's matrix unit, for 16-bit
 * types. Tiles where numbers are not finite are done by cl/backward_gpu/backward_simt.cl, what else is asked for by the
 * kernels of plain. */
#include "base/checked_math.h"
#include "cl/backward/backward_plain_layout.h"
#include "cl/mma/mma_layout.h"
#include "plan/matrix_unit.h"
#include "strategy/backward_owners.h"
#include "strategy/strategies.h"

/* Two sums of so many columns, and what is owned, are as much as registers hold; deeper ones have a kernel for each
 * sum, that of keys and that of values. */
#define COLUMNS_OF_BOTH 64

#define KERNELS 3 /* of rows; of keys and values, or of keys; of values */

/* matrix_unit_find, or another one like it: each has a strategy of its own. */
typedef const struct matrix_unit *unit_finder(struct ask *ask);

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
    const int swizzled = 4 * WGMMA_PLACE(tile->keys, columns, columns);
    const int tiles = matrix_unit_is_warpgroup(unit) ? swizzled : walked;
    const int sums = 2 * tile->rows * (columns + 4);
    const int elements = MMA_LARGER(MMA_LARGER(tiles, owned), sums);
    struct row_tile of = { .tile = *tile, .depth = columns, .columns = columns };
    of.local_bytes = (size_t)(2 * elements) + (size_t)(16 * tile->keys) + 64;
    if (problem->flags & CLATTN_FLAGS_FINISHING || MMA_PARKS(problem->flags)) {
        of.local_bytes += sizeof(float) * (size_t)(tile->rows * tile->keys);
    }
    if (matrix_unit_is_emulated(unit)) {
        of.local_bytes += (size_t)(MMA_SCRATCH_BYTES * tile->work_items);
    }
    return of;
}

static const struct row_tile *find(struct ask *ask, void *of, int *rank)
{
    const struct problem *problem = attention_problem(ask->problem);
    const int64_t head_dim = problem->p.head_dim > problem->p.head_dim_v ? problem->p.head_dim : problem->p.head_dim_v;
    struct mma_state *state = of;
    const char *tiles = state->unit ? state->unit->gradient_tiles : NULL;
    const struct tile *tile;
    for (; tiles && (tile = tuning_find(tiles, DEVICE_GPU, head_dim, *rank)) != NULL; ++*rank) {
        state->tile = tile_of(state->unit, tile, problem);
        if (state->tile.columns >= head_dim && row_tile_fits(&ask->context->device, &state->tile)) {
            return &state->tile;
        }
    }
    return NULL;
}

/* Who keeps gradients of 16-bit numbers in float32 wants what float32 has: bfloat16's parts have 16 bits of a pair, and
 * float16's no more than 2^-37 of the largest of its key or row, which some columns may not have. Which gradients are
 * wanted is not asked, for no bit may depend on that (as in fused_amx). */
static int keeps_float32(struct ask *ask)
{
    const struct backward_problem *b = backward_problem(ask->problem);
    const clattn_problem *p = &b->attention.p;
    if (b->dquery_type != CLATTN_FLOAT32) {
        return 1;
    }
    if (p->type == CLATTN_FLOAT16) {
        return ask_declines(ask, "gradients of float16 in float32: float16, in which weights and dZ meet the other "
                                 "operand, has too few exponents");
    }
    return p->allow_rounded_weights || ask->by_name ||
           ask_declines(ask, "gradients in float32: with allow_rounded_weights, or when asked for by name, since "
                             "weights and dZ have two parts of the type");
}

static int has_tiles(struct ask *ask, const struct matrix_unit *unit)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct mma_state state = { .unit = unit };
    int rank = 0;
    if (!unit->gradient_tiles) {
        return ask_declines(ask, "this matrix unit multiplies no gradients yet");
    }
    if (unit->is_untried && !ask->context->verdicts && !ask->by_name) {
        return ask_declines(ask, "gradients have not run on such a matrix unit yet: with the self-check, or when asked "
                                 "for by name");
    }
    if (!tuning_find(unit->gradient_tiles, DEVICE_GPU, p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v, 0)) {
        return ask_declines(ask,
                            "head_dim %lld, head_dim_v %lld: more than this matrix unit's gradients have registers for",
                            (long long)p->head_dim, (long long)p->head_dim_v);
    }
    return find(ask, &state, &rank) || row_tile_none_fits(ask);
}

static int applicable(struct ask *ask, unit_finder *find_unit)
{
    const struct problem *problem = attention_problem(ask->problem);
    const struct matrix_unit *unit;
    if (problem->p.type != CLATTN_FLOAT16 && problem->p.type != CLATTN_BFLOAT16) {
        return ask_declines(ask, "matrix units multiply gradients of 16-bit types");
    }
    if (problem_mixes_types(problem)) {
        return ask_declines(ask, "takes queries, keys, values and outputs of one type");
    }
    return keeps_float32(ask) && backward_owners_wanted(ask) && (unit = find_unit(ask)) != NULL &&
           has_tiles(ask, unit) && backward_simt_fits(ask) && backward_is_served(ask);
}

/* Products that pairs are made of, and those that add them up in two parts. */
static double pair_work(const struct row_tile *tile, int of_kernel)
{
    static const double products[KERNELS] = { 3, 3, 2 };
    return (of_kernel == 1 && has_both_sums(tile) ? 4 : products[of_kernel]) * tile->columns;
}

static struct work work(struct ask *ask, unit_finder *find_unit, enum rate_id rate)
{
    struct mma_state state = { .unit = find_unit(ask) };
    int rank = 0;
    const struct row_tile *tile = find(ask, &state, &rank);
    if (!tile) {
        return WORK_UNKNOWN;
    }
    const double pairs = backward_owner_pairs(&attention_problem(ask->problem)->p, tile->tile.rows, tile->tile.rows);
    const double of_pair = pair_work(tile, 0) + pair_work(tile, 1) + (has_both_sums(tile) ? 0 : pair_work(tile, 2));
    return (struct work){ .rate = matrix_unit_is_emulated(state.unit) ? RATE_GRADIENTS_MMA_EMULATED : rate,
                          .multiply_adds = pairs * of_pair };
}

/* ---- plan -------------------------------------------------------------------------------------- */

static clattn_status build_kernel(struct ask *ask, struct mma_state *state, int n, size_t *limit)
{
    static const char *const names[KERNELS] = { "mma_gradients_of_rows", "mma_gradients_of_keys",
                                                "mma_gradients_of_values" };
    const struct backward_problem *b = backward_problem(ask->problem);
    const struct problem *problem = &b->attention;
    const struct tile *tile = &state->tile.tile;
    const int sums = n == 2                                  ? OWNER_WANTS_DVALUE
                     : n == 1 && has_both_sums(&state->tile) ? OWNER_WANTS_BOTH
                                                             : OWNER_WANTS_FIRST;
    struct text options = TEXT_INIT;
    matrix_unit_append_options(state->unit, &options);
    text_append(&options,
                " -D WARPGROUPS_MULTIPLY=%d -D TYPE=%d -D FEATURES=0x%xu -D STRIDED_COLUMNS=%d -D TILE_ROWS=%d "
                "-D TILE_KEYS=%d -D WORK_ITEMS=%d -D DEPTH=%d -D COLUMNS=%d -D OWNS_KEYS=%d -D SUMS=%d -D OWN_TYPE=%d "
                "-D DVALUE_TYPE=%d -D RUNS=%d",
                matrix_unit_is_warpgroup(state->unit), (int)problem->p.type,
                problem->flags & ~ROW_BLOCK_RUN_TIME_FEATURES, problem->p.strided_columns != 0, tile->rows, tile->keys,
                tile->work_items, state->tile.depth, state->tile.columns, n > 0, sums,
                (int)(n > 0 ? b->dkey_type : b->dquery_type), (int)b->dvalue_type,
                backward_owner_has_runs(&problem->p, n > 0 ? OWNED_KEYS : OWNED_ROWS));
    if (problem->p.allow_rounded_weights) {
        text_append(&options, " -D WEIGHT_PARTS=1");
    }
    if (problem->flags & CLATTN_FLAG_BIAS) {
        text_append(&options, " -D BIAS_TYPE=%d", (int)problem->p.bias_type);
    }
    append_block_mask_options(problem, &options);
    const clattn_status status =
        ask_kernel(ask, "backward_gpu/backward_mma.cl", &options, names[n], &state->kernels[n], limit);
    text_free(&options);
    return status;
}

static clattn_status build(struct ask *ask, void *of, size_t *limit)
{
    struct mma_state *state = of;
    const int kernels = has_both_sums(&state->tile) ? 2 : KERNELS;
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < kernels && status == CLATTN_OK; ++n) {
        status = build_kernel(ask, state, n, limit);
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
        state->redo_blocks[owned] = ceil_div(lengths[owned], REDO_ROWS);
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

static clattn_status plan(struct ask *ask, struct clattn_plan *plan, unit_finder *find_unit, const char *name)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct mma_state *state = plan->state;
    plan->weight_rounding = matrix_weight_rounding(&problem->p);
    state->unit = find_unit(ask);
    state->launch_work_most = MATRIX_LAUNCH_WORK_PER_UNIT * (double)ask->context->device.compute_units;
    clattn_status status = backward_plain_measure(plan, BACKWARD_BLOCK);
    if (status == CLATTN_OK) {
        measure_redo(plan, state);
        status = backward_plain_build(ask, backward_scalars_wanted(backward_problem(plan->problem)), &state->plain);
    }
    if (status == CLATTN_OK) {
        status = backward_simt_build(ask, &state->simt);
    }
    if (status == CLATTN_OK) {
        status = row_tile_build(ask, name, find, build, state);
    }
    if (status == CLATTN_OK) {
        describe(state, problem, ask->explain);
    }
    return status;
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
    /* Also where gradients are kept in float32: their products have 16 bits. Tiles that meet rests are fused_simt's. */
    parts[OWNED_ROWS].rests_from = RESTS_FROM_OF_16_BITS;
    return backward_owners_enqueue(plan, operands, chain, &state->plain, &state->simt, state, run_owner, parts);
}

/* ---- the strategies ---------------------------------------------------------------------------- */

/* sum_roundings: 2 (64 + 4) */
#define STRATEGY_OF(units, name_of, summary_of, find_unit, rate)                                                       \
    static int applicable_##units(struct ask *ask)                                                                     \
    {                                                                                                                  \
        return applicable(ask, find_unit);                                                                             \
    }                                                                                                                  \
    static struct work work_##units(struct ask *ask)                                                                   \
    {                                                                                                                  \
        return work(ask, find_unit, rate);                                                                             \
    }                                                                                                                  \
    static clattn_status plan_##units(struct ask *ask, struct clattn_plan *of)                                         \
    {                                                                                                                  \
        return plan(ask, of, find_unit, name_of);                                                                      \
    }                                                                                                                  \
    const struct strategy strategy_backward_##units = {                                                                \
        .operation = &operation_backward,                                                                              \
        .name = name_of,                                                                                               \
        .summary = summary_of,                                                                                         \
        .knows = CLATTN_FLAGS_OF_ALL,                                                                                  \
        .takes = BACKWARD_TAKES,                                                                                       \
        .types = STRATEGY_16_BITS,                                                                                     \
        .sum_roundings = 144,                                                                                          \
        .applicable = applicable_##units,                                                                              \
        .work = work_##units,                                                                                          \
        .state_bytes = sizeof(struct mma_state),                                                                       \
        .plan = plan_##units,                                                                                          \
        .enqueue = enqueue,                                                                                            \
    }

STRATEGY_OF(mma, "fused_mma", "no score matrix in memory; 16-bit types on a GPU's matrix unit", matrix_unit_find,
            RATE_GRADIENTS_MMA);
STRATEGY_OF(wgmma, "fused_wgmma", "fused_mma with the products of NVIDIA's warpgroups (Hopper)", warpgroup_unit_find,
            RATE_GRADIENTS_WGMMA);
