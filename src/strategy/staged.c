/* staged: the score matrix in memory, one kernel a step: scores -> scale_mask -> softmax -> mix. The two
 * products by CLBlast or by clattn's own tiles. The path of the attention weights, and the one that shows
 * what attention does. Here: which problems, which kernels, what workspace; one call is in staged_run.c.
 *
 * The workspace holds the scores of one chunk at a time: some (batch, head) planes, or some rows of one. */
#include "strategy/staged.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "plan/tile_choice.h"
#include "program/gemm.h"
#include "strategy/strategies.h"

#define ROW_ITEMS 128
#define REPAIR_ITEMS 64

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t real_bytes(const struct problem *problem)
{
    return problem->p.type == CLATTN_FLOAT64 ? 8 : 4;
}

/* ---- which product ---------------------------------------------------------------------------- */

/* NULL when CLBlast may multiply for this problem, else why it never can. */
static const char *clblast_declines(const clattn_context *context, const struct problem *problem)
{
    if (problem->flags & CLATTN_FLAG_VARLEN) {
        return "the lengths of packed sequences are known to the device only";
    }
    if (problem->p.strided_columns) {
        return "columns may be strided";
    }
    if (problem_mixes_types(problem)) {
        return "it multiplies matrices of one type";
    }
    return gemm_declines_type(&context->device, problem->p.type);
}

int staged_is_worth_clblast(const clattn_context *context, const struct problem *problem, int64_t rows, int64_t keys)
{
    const clattn_problem *p = &problem->p;
    const int64_t depth = min64(p->head_dim, p->head_dim_v);
    return p->matmul == CLATTN_MATMUL_CLBLAST ||
           (double)rows * (double)keys * (double)depth >= staged_clblast_work_min(&context->device);
}

/* NULL when CLBlast is to multiply, else why clattn's tiles do. */
static const char *tiles_reason(const clattn_context *context, const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    if (p->matmul == CLATTN_MATMUL_TILES) {
        return "tiles were asked for";
    }
    if (clblast_declines(context, problem)) {
        return clblast_declines(context, problem);
    }
    if (staged_is_worth_clblast(context, problem, p->query_len, p->key_len)) {
        return NULL;
    }
    return context->device.device_class == DEVICE_CPU ? "slower than tiles on CPU devices"
                                                      : "the matrices are too small for it";
}

static int applicable(struct ask *ask)
{
    const struct problem *problem = attention_problem(ask->problem);
    if (!attention_is_served(ask, sizeof(staged_chunk)) || !attention_reads_rows(ask)) {
        return 0;
    }
    if (problem->flags & CLATTN_FLAG_PAGES) {
        return ask_declines(ask, "multiplies matrices, which keys and values in pages are not");
    }
    const char *declines = clblast_declines(ask->context, problem);
    return problem->p.matmul != CLATTN_MATMUL_CLBLAST || !declines ||
           ask_declines(ask, "CLBlast was asked for and cannot multiply here: %s", declines);
}

/* ---- planning --------------------------------------------------------------------------------- */

/* Bounds on the keys say all about causal, lengths and one-part windows; the rest goes key by key. */
static int needs_scale_mask(const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    return (problem->flags & (CLATTN_FLAGS_HIDING_PAIRS | CLATTN_FLAGS_FINISHING | CLATTN_FLAG_ROW_RANGES |
                              CLATTN_FLAG_BLOCK_MASK)) != 0 ||
           (problem->flags & CLATTN_FLAG_WINDOW && p->always_visible_keys > 0) ||
           (p->weights != CLATTN_WEIGHTS_NONE && p->weights != CLATTN_WEIGHTS_SOFTMAX);
}

static void plan_chunks(const clattn_context *context, const struct problem *problem, struct staged_state *state)
{
    const clattn_problem *p = &problem->p;
    state->row_stride = round_up(p->key_len > 0 ? p->key_len : 1, STAGED_ROW_ALIGNMENT);
    const int64_t row_bytes = state->row_stride * (int64_t)real_bytes(problem);
    const int64_t limit = (int64_t)min64((int64_t)(context->workspace_limit_bytes / 2), INT64_MAX / 4) * 2;
    int64_t rows = limit / row_bytes > 1 ? limit / row_bytes : 1;
    if (rows >= p->query_len) {
        state->chunk_rows = p->query_len;
        state->chunk_planes =
            p->query_len > 0 ? min64(min64(rows / p->query_len, LAUNCH_GROUPS_MOST), p->batch * p->query_heads) : 0;
        return;
    }
    const int64_t tile_rows = state->score.group_rows > state->mix.group_rows ? state->score.group_rows
                                                                              : state->mix.group_rows;
    state->chunk_rows = rows > tile_rows ? rows - rows % tile_rows : rows;
    state->chunk_planes = min64(1, p->batch * p->query_heads);
}

static clattn_status build_product_kernels(struct ask *ask, int shape, struct staged_state *state)
{
    const struct problem *problem = attention_problem(ask->problem);
    const clattn_type type = problem->p.type;
    struct text types = TEXT_INIT;
    append_type_options(problem, &types);
    clattn_status status = CLATTN_OK;
    if (types.failed) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options");
    }
    if (status == CLATTN_OK) {
        status = staged_build_tiles(ask, "staged/staged_score.cl", "score", type, types.data, shape, &state->score);
    }
    if (status == CLATTN_OK) {
        status = staged_build_tiles(ask, "staged/staged_mix.cl", "mix_values", type, types.data, shape, &state->mix);
    }
    text_free(&types);
    return status;
}

/* TYPE says only what they compute in: they touch neither keys nor values, but for repair, which CLBlast's one type
 * needs alone. */
static clattn_status build_row_kernels(struct ask *ask, struct staged_state *state)
{
    const struct problem *problem = attention_problem(ask->problem);
    const int vector = staged_vector_bytes(ask) / (int)real_bytes(problem);
    struct text type = TEXT_INIT, options = TEXT_INIT;
    state->row_items = staged_row_items(&ask->context->device, ROW_ITEMS);
    state->repair_items = staged_row_items(&ask->context->device, REPAIR_ITEMS);
    text_append(&type, "-D TYPE=%d", (int)problem->p.type);
    append_block_mask_options(problem, &type);
    text_append(&options, "-D TYPE=%d -D VEC=%d -D ITEMS=%zu", (int)problem->p.type,
                state->row_items > 1 || vector < 1 ? 1 : vector, state->row_items);
    append_head_type_options(problem, &type);
    append_head_type_options(problem, &options);
    clattn_status status = ask_kernel(ask, "staged/staged_softmax.cl", &options, "softmax", &state->softmax, NULL);
    if (status == CLATTN_OK && state->masks_scores) {
        status = ask_kernel(ask, "staged/staged_scale_mask.cl", &type, "scale_mask", &state->scale_mask, NULL);
    }
    if (status == CLATTN_OK && !state->tiles_reason && problem_hides_keys(problem)) {
        status = ask_kernel(ask, "staged/staged_repair.cl", &type, "repair", &state->repair, NULL);
    }
    text_free(&type);
    text_free(&options);
    return status;
}

static clattn_status build_kernels(struct ask *ask, int shape, struct staged_state *state)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    clattn_status status = build_product_kernels(ask, shape, state);
    if (status == CLATTN_OK) {
        status = build_row_kernels(ask, state);
    }
    if (status == CLATTN_OK && !state->tiles_reason) {
        const int is_wanted = p->matmul == CLATTN_MATMUL_CLBLAST;
        status = gemm_prepare(ask->context, p->type, is_wanted ? NULL : &state->tiles_reason);
    }
    return status;
}

static void explain_products(const struct clattn_plan *plan, const struct staged_state *state, struct text *explain)
{
    const char *flags = plan->context->clblast_flags;
    if (state->tiles_reason) {
        text_append(explain, "  scores and mix: clattn's tiles (CLBlast: %s)\n", state->tiles_reason);
    } else {
        text_append(explain,
                    "  scores and mix: CLBlast %s, a call a head; clattn's tiles in calls whose queue, strides "
                    "or lengths rule it out\n",
                    attention_problem(plan->problem)->p.type == CLATTN_FLOAT64 ? "Dgemm" : "Sgemm");
    }
    if (flags) {
        text_append(explain, "  CLBLAST_BUILD_OPTIONS, which CLBlast adds to its own: \"%s\"\n", flags);
    }
}

static void explain_tile(const char *name, const struct tile_kernel *tile, const char *columns, struct text *explain)
{
    text_append(explain, "  %s tile: %d rows x %d %s, %d deep, %zu work-items\n", name, tile->group_rows,
                tile->group_columns, columns, tile->shape.tile_k, tile->local[0] * tile->local[1]);
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct text *explain = ask->explain;
    struct staged_state *state = plan->state;
    state->masks_scores = needs_scale_mask(problem);
    state->tiles_reason = tiles_reason(ask->context, problem);
    const struct wisdom_tile tile = tile_choose(ask, plan);
    clattn_status status = build_kernels(ask, (int)tile.shape, state);
    if (status != CLATTN_OK) {
        return status;
    }
    plan_chunks(ask->context, problem, state);
    plan->workspace_bytes = (size_t)(state->chunk_planes * state->chunk_rows * state->row_stride) * real_bytes(problem);
    explain_products(plan, state, explain);
    explain_tile("score", &state->score, "keys", explain);
    explain_tile("mix", &state->mix, "columns", explain);
    text_append(explain, "  scale_mask: %s\n  softmax: %zu work-items a row\n",
                state->masks_scores ? "runs" : "not needed: bounds on the keys say all", state->row_items);
    text_append(explain, "  chunk: %lld of %lld heads x %lld of %lld rows\n", (long long)state->chunk_planes,
                (long long)(problem->p.batch * problem->p.query_heads), (long long)state->chunk_rows,
                (long long)problem->p.query_len);
    return CLATTN_OK;
}

/* ---- tiles ------------------------------------------------------------------------------------ */

/* Nothing where CLBlast multiplies: then tiles serve the calls that it cannot. */
static int tunable(struct ask *ask, struct tunable *tunable)
{
    const struct problem *problem = attention_problem(ask->problem);
    tunable->of = wisdom_class_of("staged", &problem->p);
    tunable->table.shape = staged_shape_of_table(ask, problem->p.type);
    return tiles_reason(ask->context, problem) != NULL;
}

static int is_legal(struct ask *ask, const struct wisdom_tile *tile)
{
    const struct wisdom_tile staged = { .shape = tile->shape };
    return wisdom_tile_equal(tile, &staged) &&
           staged_shape_is_legal(ask, attention_problem(ask->problem)->p.type, tile->shape);
}

/* ---- the row of the table --------------------------------------------------------------------- */

static enum rate_id rate_of(const clattn_context *context, int by_clblast)
{
    return context->device.device_class == DEVICE_CPU ? (by_clblast ? RATE_STAGED_CPU_CLBLAST : RATE_STAGED_CPU)
           : by_clblast                               ? RATE_STAGED_GPU_CLBLAST
                                                      : RATE_STAGED_GPU;
}

/* Rows that share a tile of keys: each such block loads all keys and values of its head once. */
#define SHARING_ROWS 48

/* Multiply-adds; the loads into tiles, and the passes over the scores; launches. */
static struct work work(struct ask *ask)
{
    const struct problem *problem = attention_problem(ask->problem);
    const clattn_problem *p = &problem->p;
    const int by_clblast = tiles_reason(ask->context, problem) == NULL;
    const int walks = by_clblast && ask->context->device.device_class == DEVICE_GPU;
    const double heads = (double)p->batch * (double)p->query_heads;
    const double scores = heads * (double)p->query_len * (double)p->key_len;
    const double columns = (double)(p->head_dim + p->head_dim_v);
    const double loads = heads * (double)ceil_div(p->query_len, SHARING_ROWS) * (double)p->key_len * columns;
    const double passes = needs_scale_mask(problem) ? 5.5 : 1.5;
    const double chunks = 1 + scores * (double)real_bytes(problem) / ((double)ask->context->workspace_limit_bytes + 1);
    return (struct work){ .rate = rate_of(ask->context, by_clblast),
                          .multiply_adds = scores * columns,
                          .bytes = scores * passes + 0.6 * loads,
                          .launches = chunks,
                          /* Two calls a head, the second of which walks over the keys one after the other (H100). */
                          .alone_ms = walks ? heads * (0.04 + 8e-5 * (double)p->key_len) : 0 };
}

const struct strategy strategy_staged = {
    .operation = &operation_forward,
    .name = "staged",
    .summary = "scores, softmax and mix as separate kernels, the score matrix in memory",
    .knows = CLATTN_FLAGS_OF_ALL,
    .takes = CLATTN_TAKES_LSE | CLATTN_TAKES_PAIRS | CLATTN_TAKES_ROWS,
    .types = STRATEGY_64_BITS,
    .sum_roundings = 580, /* CLBlast 256 + 256, row sums; own tiles fewer */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct staged_state),
    .plan = plan,
    .enqueue = staged_enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
};
