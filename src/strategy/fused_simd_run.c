/* cl/simd/fused_simd.cl for CPU devices: builds it with one of its products and its tile, and launches. */
#include "base/checked_math.h"
#include "plan/attention_arguments.h"
#include "plan/code_programs.h"
#include "plan/kv_split.h"
#include "strategy/fused_simd_tile.h"

#define COLUMNS_MAX 4096 /* head_dim + head_dim_v: queries and sums of a tile live in private memory */

#define DOT_SUM_ROUNDINGS 392 /* 2 * 128 + 34, row sums 64 + 34, the end: an instruction rounds twice */

int simd_applicable(struct ask *ask)
{
    if (!attention_fits_vectors(ask, COLUMNS_MAX)) {
        return 0;
    }
    if (attention_problem(ask->problem)->p.weights != CLATTN_WEIGHTS_NONE) {
        return ask_declines(ask, "has no matrix of weights to give out");
    }
    return attention_is_served(ask, 0);
}

/* Rounded weights are one part of bfloat16, not two. Where values are float16, and two parts each, that would be less
 * than the type has. */
static int rounds_weights(const clattn_problem *p, enum simd_product product)
{
    return p->allow_rounded_weights && product != SIMD_FMA && p->value_type == CLATTN_BFLOAT16;
}

static double weight_rounding(const clattn_problem *p, enum simd_product product)
{
    return product == SIMD_FMA ? 0 : rounds_weights(p, product) ? 0x1p-8 : 0x1p-17;
}

/* Calls of no more keys than a run has need no totals. */
static int has_runs(const clattn_problem *p, const struct simd_choice *choice)
{
    return kv_keys_of(p, p->key_len) > SIMD_RUN_BLOCKS * (int64_t)choice->keys;
}

static void append_options(struct ask *ask, const struct clattn_plan *plan, const struct simd_choice *choice,
                           struct text *options)
{
    const struct problem *problem = attention_problem(plan->problem);
    const clattn_problem *p = &problem->p;
    append_type_options(problem, options);
    append_problem_options(problem, options);
    append_kv_options(problem, options);
    text_append(options, " -D GROUP=%d -D VECTORS=%d -D KEYS=%d -D SCORE_KEYS=%d -D TILES=%d -D PRODUCT=%d",
                (int)problem_group(p), (int)choice->tile.rows / LANES, choice->keys, (int)choice->tile.item_keys,
                (int)choice->tile.shared, (int)choice->product);
    if (rounds_weights(p, choice->product)) {
        text_append(options, " -D WEIGHT_PARTS=1");
    }
    text_append(options, " -D RUNS=%d -D FETCHES=%d", has_runs(p, choice),
                plan->context->device.device_class == DEVICE_CPU);
    if (choice->tile.item_columns) {
        text_append(options, " -D MIX_COLUMNS=%d", (int)choice->tile.item_columns);
    }
    append_code_width(ask, options);
}

static const char *words_for_reading(const clattn_problem *p, enum simd_product product)
{
    if (product != SIMD_FMA) {
        return "values, and keys where they must, reordered block by block";
    }
    const int keys = simd_converts(p, p->key_type, product), values = simd_converts(p, p->value_type, product);
    return keys && values ? "widened block by block"
           : keys         ? "keys widened block by block, values read in place"
           : values       ? "keys read in place, values widened block by block"
                          : "read in place";
}

static void describe(const clattn_problem *p, const struct simd_choice *choice, struct text *explain)
{
    const int rows = (int)choice->tile.rows;
    text_append(explain, "  tile: %d query rows x %d keys, %d heads side by side; %d a work-group\n", rows,
                choice->keys, (int)problem_group(p), (int)choice->tile.shared);
    if (choice->tile.item_columns) {
        text_append(explain, "  registers: %d keys, then %d columns, x %d vectors of 16 rows\n",
                    (int)choice->tile.item_keys, (int)choice->tile.item_columns, rows / LANES);
    }
    text_append(explain, "  keys and values: %s\n", words_for_reading(p, choice->product));
}

clattn_status simd_plan(struct ask *ask, struct clattn_plan *plan, enum simd_product product, const char *product_words)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    struct simd_state *state = plan->state;
    state->group = (int)problem_group(p);
    plan->weight_rounding = weight_rounding(p, product);
    plan->sum_roundings = product == SIMD_DOT ? DOT_SUM_ROUNDINGS : plan->sum_roundings;
    text_append(ask->explain, "  products: %s\n", product_words);
    const struct simd_choice choice = simd_choose(ask, plan, product);
    state->group_rows = (int)(choice.tile.rows * choice.tile.shared);
    describe(p, &choice, ask->explain);
    struct text options = TEXT_INIT;
    append_options(ask, plan, &choice, &options);
    const clattn_status status = ask_kernel(ask, "simd/fused_simd.cl", &options, "fused_simd", &state->kernel, NULL);
    text_free(&options);
    return status;
}

clattn_status simd_enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simd_state *state = plan->state;
    struct attention_given given;
    struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST];
    attention_give(plan, operands, &given);
    const size_t count = attention_arguments(&given, arguments);
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    const int64_t rows = (int64_t)given.params.query_len * state->group;
    const int64_t blocks = kv_call_blocks(p, rows, state->group_rows);
    const size_t global[3] = { (size_t)blocks, (size_t)given.params.kv_heads, (size_t)given.params.batch };
    const size_t local[3] = { 1, 1, 1 };
    chain_final(chain);
    return launch(chain, state->kernel, 3, global, local, count, arguments);
}
