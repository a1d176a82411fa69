/* staged: the score matrix in memory, one kernel a step: scores -> scale_mask -> softmax -> mix. The two
 * products by CLBlast or by clattn's own tiles. The path of the attention weights, and the one that shows
 * what attention does. Here: which problems, which kernels, what workspace; one call is in staged_run.c.
 *
 * The workspace holds the scores of one chunk at a time: some (batch, head) planes, or some rows of one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/tile_choice.h"
#include "program/gemm.h"
#include "strategy/staged.h"
#include "strategy/strategies.h"

#define ROW_ITEMS 128
#define REPAIR_ITEMS 64

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
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

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct problem *problem = attention_problem(any);
    if (!device_computes(&context->device, problem->p.type, why) || !attention_reads_rows(problem, why) ||
        !attention_arguments_fit(&context->device, why)) {
        return 0;
    }
    if (problem->flags & CLATTN_FLAG_PAGES) {
        text_append(why, "multiplies matrices, which keys and values in pages are not");
        return 0;
    }
    if (problem->p.matmul == CLATTN_MATMUL_CLBLAST && clblast_declines(context, problem)) {
        text_append(why, "CLBlast was asked for and cannot multiply here: %s", clblast_declines(context, problem));
        return 0;
    }
    return 1;
}

/* ---- planning --------------------------------------------------------------------------------- */

/* Bounds on the keys say all about causal, lengths and one-part windows; the rest goes key by key. */
static int needs_scale_mask(const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    return (problem->flags & (CLATTN_FLAGS_HIDING_PAIRS | CLATTN_FLAGS_FINISHING | CLATTN_FLAG_ROW_RANGES)) != 0 ||
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

static clattn_status build_product_kernels(clattn_context *context, const struct problem *problem, int shape,
                                           struct staged_state *state)
{
    const clattn_type type = problem->p.type;
    struct text types = TEXT_INIT;
    append_type_options(problem, &types);
    clattn_status status = CLATTN_OK;
    if (types.failed) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options");
    }
    if (status == CLATTN_OK) {
        status = staged_build_tiles(context, "staged_score.cl", "score", type, types.data, shape, &state->score);
    }
    if (status == CLATTN_OK) {
        status = staged_build_tiles(context, "staged_mix.cl", "mix_values", type, types.data, shape, &state->mix);
    }
    text_free(&types);
    return status;
}

/* TYPE says only what they compute in: they touch neither keys nor values, but for repair, which CLBlast's one type
 * needs alone. */
static clattn_status build_row_kernels(clattn_context *context, const struct problem *problem,
                                       struct staged_state *state)
{
    const int vector = staged_vector_bytes(context) / (int)real_bytes(problem);
    state->row_items = staged_row_items(&context->device, ROW_ITEMS);
    state->repair_items = staged_row_items(&context->device, REPAIR_ITEMS);
    char options[96];
    snprintf(options, sizeof(options), "-D TYPE=%d -D VEC=%d -D ITEMS=%zu", (int)problem->p.type,
             state->row_items > 1 || vector < 1 ? 1 : vector, state->row_items);
    clattn_status status = program_kernel(context, "staged_softmax.cl", options, "softmax", &state->softmax);
    snprintf(options, sizeof(options), "-D TYPE=%d", (int)problem->p.type);
    if (status == CLATTN_OK && state->masks_scores) {
        status = program_kernel(context, "staged_scale_mask.cl", options, "scale_mask", &state->scale_mask);
    }
    if (status == CLATTN_OK && !state->tiles_reason && problem_hides_keys(problem)) {
        status = program_kernel(context, "staged_repair.cl", options, "repair", &state->repair);
    }
    return status;
}

static clattn_status build_kernels(clattn_context *context, const struct problem *problem, int shape,
                                   struct staged_state *state)
{
    const clattn_type type = problem->p.type;
    clattn_status status = build_product_kernels(context, problem, shape, state);
    if (status == CLATTN_OK) {
        status = build_row_kernels(context, problem, state);
    }
    if (status == CLATTN_OK && !state->tiles_reason) {
        const int is_wanted = problem->p.matmul == CLATTN_MATMUL_CLBLAST;
        status = gemm_prepare(context, type, is_wanted ? NULL : &state->tiles_reason);
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
                    "or short lengths rule it out\n",
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

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    clattn_context *context = plan->context;
    const struct problem *problem = attention_problem(plan->problem);
    struct staged_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    state->masks_scores = needs_scale_mask(problem);
    state->tiles_reason = tiles_reason(context, problem);
    const struct wisdom_tile tile = tile_choose(plan, explain);
    clattn_status status = build_kernels(context, problem, (int)tile.shape, state);
    if (status != CLATTN_OK) {
        return status;
    }
    plan_chunks(context, problem, state);
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

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

/* ---- tiles ------------------------------------------------------------------------------------ */

/* Nothing where CLBlast multiplies: then tiles serve the calls that it cannot. */
static int tunable(const clattn_context *context, const struct any_problem *any, struct tunable *tunable)
{
    const struct problem *problem = attention_problem(any);
    tunable->of = wisdom_class_of("staged", &problem->p);
    tunable->table.shape = staged_shape_of_table(context, problem->p.type);
    return tiles_reason(context, problem) != NULL;
}

static int is_legal(const clattn_context *context, const struct any_problem *any, const struct wisdom_tile *tile)
{
    const struct wisdom_tile staged = { .shape = tile->shape };
    return wisdom_tile_equal(tile, &staged) &&
           staged_shape_is_legal(context, attention_problem(any)->p.type, tile->shape);
}

/* ---- the row of the table --------------------------------------------------------------------- */

/* Multiply-adds a millisecond and compute unit: measured on CPUs; CLBlast on a GPU (H100) too, tiles there a guess. */
static double product_rate(const clattn_context *context, const struct problem *problem)
{
    const int by_clblast = tiles_reason(context, problem) == NULL;
    return context->device.device_class == DEVICE_CPU ? (by_clblast ? 5e6 : 3e7) : (by_clblast ? 4e7 : 2e7);
}

/* CLBlast on a GPU, a head: two calls, the second of which walks over the keys one after the other (H100). */
static double head_ms(const clattn_context *context, const struct problem *problem)
{
    const int walks = context->device.device_class == DEVICE_GPU && tiles_reason(context, problem) == NULL;
    return walks ? 0.04 + 8e-5 * (double)problem->p.key_len : 0;
}

/* Rows that share a tile of keys: each such block loads all keys and values of its head once. */
#define SHARING_ROWS 48

/* Launches, multiply-adds, the loads into tiles, and the passes over the scores. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    const double units = (double)context->device.compute_units;
    const double rows = (double)p->batch * (double)p->query_heads * (double)p->query_len;
    const double scores = rows * (double)p->key_len;
    const double bytes = scores * (double)real_bytes(problem);
    const double chunks = 1 + bytes / ((double)context->workspace_limit_bytes + 1);
    const double multiply_adds = scores * (double)(p->head_dim + p->head_dim_v);
    const double blocks = (double)p->batch * (double)p->query_heads *
                          (double)((p->query_len + SHARING_ROWS - 1) / SHARING_ROWS);
    const double loads = blocks * (double)p->key_len * (double)(p->head_dim + p->head_dim_v);
    const double passes = needs_scale_mask(problem) ? 5.5 : 1.5;
    return chunks * 0.06 + (double)p->batch * (double)p->query_heads * head_ms(context, problem) +
           multiply_adds / (product_rate(context, problem) * units) + (scores * passes + 0.6 * loads) / (1e6 * units);
}

const struct strategy strategy_staged = {
    .operation = &operation_forward,
    .name = "staged",
    .summary = "scores, softmax and mix as separate kernels, the score matrix in memory",
    .knows = CLATTN_FLAGS_OF_ALL,
    .sum_roundings = 580, /* CLBlast 256 + 256, row sums; own tiles fewer */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = staged_enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
    .destroy = destroy,
};
