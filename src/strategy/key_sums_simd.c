/* key_sums_simd: cl/key_sums/key_sums_simd.cl for CPU devices, by float32 multiply-adds. Rows of heads that share keys
 * lie side by side, as many heads as divide them and fit a tile. */
#include <stdio.h>

#include "base/checked_math.h"
#include "cl/simd/simd_layout.h"
#include "plan/code_programs.h"
#include "plan/register_file.h"
#include "plan/tuning.h"
#include "strategy/key_sums_run.h"
#include "strategy/strategies.h"

#define COLUMNS_MAX 4096               /* head_dim: queries of a tile live in private memory */
#define PRIVATE_BYTES_MAX (256 * 1024) /* of a work-group */
#define KEYS_MOST 192                  /* of a block, and no fewer than */
#define KEYS_LEAST 48

struct key_sums_simd {
    struct kernel *kernel, *largest;
    int keys, heads; /* of a work-group */
};

static int applicable(struct ask *ask)
{
    if (ask->context->device.device_class != DEVICE_CPU && !ask->by_name) {
        return ask_declines(ask, "for CPU devices, and others only when asked for by name");
    }
    return attention_fits_vectors(ask, COLUMNS_MAX) && key_sums_is_served(ask);
}

static struct work work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double pairs = (double)p->batch * (double)p->query_heads * (key_sums_rows(ask) + 8) * (double)p->key_len;
    return (struct work){ .rate = RATE_SIMD,
                          .multiply_adds = pairs * ((double)p->head_dim + 24),
                          .bytes = (double)p->batch * (double)p->kv_heads * (double)p->key_len *
                                   (double)clattn_row_bytes(p->key_type, p->head_dim) };
}

/* Heads side by side. */
static int heads_of(const clattn_problem *p, int rows)
{
    const int64_t group = problem_group(p);
    int heads = rows;
    while (group % heads != 0) {
        --heads;
    }
    return heads;
}

/* The tile of fused_simd's whose rows are filled: the largest, or the smallest where rows are few. */
static const struct tile *choose_tile(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    char name[32];
    const struct tile *best = NULL, *tile;
    const double head_rows = key_sums_rows(ask) * (double)problem_group(p);
    snprintf(name, sizeof(name), "fused_simd fma %s", register_file_name(register_file_of(ask)));
    for (int rank = 0; (tile = tuning_find(name, DEVICE_CPU, 0, rank)) != NULL; ++rank) {
        best = !best || (head_rows > LANES) == (tile->rows > best->rows) ? tile : best;
    }
    return best;
}

/* A block changes no bit of a sum, which is of rows. */
static int choose_keys(const clattn_problem *p, const struct tile *tile)
{
    int keys = KEYS_MOST;
    while (keys > KEYS_LEAST &&
           (int64_t)keys * (4 * 4 * tile->rows + 4 * p->head_dim) + 4 * tile->rows * p->head_dim > PRIVATE_BYTES_MAX) {
        keys /= 2;
    }
    return keys;
}

/* Tiles of rows that are added before a total is needed. */
static int has_runs(const struct ask *ask, const struct tile *tile, int heads)
{
    const int64_t rows = attention_problem(ask->problem)->p.query_len;
    const int64_t summed = rows - key_sums_first_row(ask->problem, rows);
    return ceil_div(summed * heads, tile->rows / heads * heads) > KEY_SUMS_ROWS;
}

static clattn_status build(struct ask *ask, const struct clattn_plan *plan, const struct tile *tile,
                           struct key_sums_simd *state)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct text options = TEXT_INIT;
    append_type_options(problem, &options);
    append_problem_options(problem, &options);
    append_kv_options(problem, &options);
    text_append(&options, " -D GROUP=%d -D VECTORS=%d -D KEYS=%d -D SCORE_KEYS=%d -D PRODUCT=%d -D FETCHES=0",
                state->heads, tile->rows / LANES, state->keys, tile->item_keys, PRODUCT_FMA);
    text_append(&options, " -D RUNS=%d", has_runs(ask, tile, state->heads));
    key_sums_append_wants(plan->problem, &options);
    append_code_width(ask, &options);
    const clattn_status status =
        ask_kernel(ask, "key_sums/key_sums_simd.cl", &options, "key_sums_simd", &state->kernel, NULL);
    text_free(&options);
    return status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    const struct tile *tile = choose_tile(ask);
    struct key_sums_simd *state = plan->state;
    state->heads = heads_of(p, tile->rows);
    state->keys = choose_keys(p, tile);
    text_append(ask->explain,
                "  products: float32 multiply-adds\n  tile: %d keys x %d query rows, %d heads side by side\n",
                state->keys, tile->rows / state->heads * state->heads, state->heads);
    clattn_status status = key_sums_measure(plan, ceil_div(p->key_len, state->keys));
    if (status == CLATTN_OK) {
        status = build(ask, plan, tile, state);
    }
    return status == CLATTN_OK ? key_sums_build_largest(ask, &state->largest) : status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct key_sums_simd *state = plan->state;
    struct key_sums_call call;
    struct launch_argument arguments[KEY_SUMS_ARGUMENTS_MOST];
    key_sums_call_of(plan, operands, &call);
    const clattn_params *p = &call.given.params;
    const int64_t blocks = ceil_div(p->key_len, state->keys);
    const size_t count = key_sums_arguments(&call, arguments);
    const size_t local[3] = { 1, 1, 1 };
    const size_t global[3] = { (size_t)blocks, (size_t)(p->query_heads / state->heads), (size_t)p->batch };
    if (!state->largest) {
        chain_final(chain);
    }
    const clattn_status status = launch(chain, state->kernel, 3, global, local, count, arguments);
    return status == CLATTN_OK ? key_sums_largest(&call, state->largest, blocks, chain) : status;
}

const struct strategy strategy_key_sums_simd = {
    .operation = &operation_key_sums,
    .name = "fused_simd",
    .summary = "query rows along vector lanes, no matrix of weights; CPU devices",
    .knows = KEY_SUMS_KNOW,
    .types = STRATEGY_32_BITS,
    .sum_roundings = 136, /* tiles, lanes, the end */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct key_sums_simd),
    .plan = plan,
    .enqueue = enqueue,
};
