/* clattn explain: which strategy a problem would take, and why each other one declined. */
#include <stdio.h>

#include "clattn_backward.h"
#include "clattn_costs.h"
#include "commands.h"
#include "document.h"
#include "insides.h"
#include "library.h"
#include "page_pools.h"
#include "problem_options.h"
#include "progress.h"
#include "several.h"
#include "user_blocks.h"
#include "user_text.h"

/* A row of keys or values, with the scales and zero points that it has beside it. */
static int64_t row_bytes(clattn_type stored, clattn_type type, int64_t columns)
{
    const clattn_type of = stored ? stored : type;
    const int64_t share = type_scale_columns(of) > 0 ? type_scale_columns(of) : columns;
    const int64_t groups = type_makes_scales(of) && share > 0 ? (columns + share - 1) / share : 0;
    const size_t beside = clattn_type_size(type_of_scales(of)) + (type_has_zero_points(of) ? sizeof(float) : 0);
    return (int64_t)clattn_row_bytes(of, columns) + groups * (int64_t)beside;
}

/* What a decoder's next token reads of its sequence: the rows of all heads that its position may see. */
struct token_reads {
    int64_t bytes, keys, heads, key_bytes, value_bytes; /* of a row; values that are columns of keys: 0 */
};

static struct token_reads find_token_reads(const clattn_problem *p)
{
    const int64_t seen = p->window_left + 1 + p->always_visible_keys;
    struct token_reads reads = { 0, p->window_left >= 0 && seen < p->key_len ? seen : p->key_len, p->kv_heads,
                                 row_bytes(p->key_type, p->type, p->head_dim),
                                 p->value_in_key ? 0 : row_bytes(p->value_type, p->type, p->head_dim_v) };
    reads.bytes = reads.keys * reads.heads * (reads.key_bytes + reads.value_bytes);
    return reads;
}

#define BLOCK_SIDE 64          /* where --blocks is not given */
#define PAIRS_MOST (1ll << 26) /* that the density is counted of */

/* What a mask text says of all pairs of rows and keys. */
struct mask_text {
    clattn_problem problem; /* with blocks */
    struct user_blocks blocks;
    double density; /* the share of pairs that the text lets see; -1: too many to count */
};

/* A problem of the text alone. */
static void begin_mask_text(const struct options *options, const clattn_problem *problem, struct mask_text *mask)
{
    const clattn_problem fresh = CLATTN_PROBLEM_INIT;
    mask->problem = fresh;
    mask->problem.code = problem->code;
    mask->problem.type = problem->type;
    mask->problem.batch = problem->batch;
    mask->problem.query_heads = problem->query_heads;
    mask->problem.kv_heads = problem->kv_heads;
    mask->problem.query_len = problem->query_len;
    mask->problem.key_len = problem->key_len;
    mask->problem.head_dim = mask->problem.head_dim_v = problem->head_dim;
    mask->problem.alignment = problem->alignment;
    mask->problem.features = CLATTN_WITH_BLOCK_MASK;
    mask->problem.block_mask_rows = options->value[OPTION_BLOCKS] ? problem->block_mask_rows : BLOCK_SIDE;
    mask->problem.block_mask_keys = options->value[OPTION_BLOCKS] ? problem->block_mask_keys : BLOCK_SIDE;
}

/* Blocks of one row and one key are all full or empty: their share is the density. */
static int count_pairs(const struct options *options, clattn_context *context, const clattn_call *call,
                       clattn_host_tensors *host, struct mask_text *mask, struct failure *failure)
{
    clattn_problem of_pairs = mask->problem;
    struct user_blocks pairs = { .all = 0 };
    const double count = (double)of_pairs.batch * (double)of_pairs.query_heads * (double)of_pairs.query_len *
                         (double)of_pairs.key_len;
    mask->density = -1;
    if (!(count > 0 && count <= (double)PAIRS_MOST)) {
        return 0;
    }
    of_pairs.block_mask_rows = of_pairs.block_mask_keys = 1;
    const int status = user_blocks_make(options, context, &of_pairs, call, host, &pairs, failure);
    mask->density = (double)pairs.full / count;
    user_blocks_free(&pairs);
    return status;
}

/* 1: there is no mask text, or where its rows stand is not known without data. */
static int find_mask_text(const struct options *options, clattn_context *context, const clattn_problem *problem,
                          const struct user_text *text, struct mask_text *mask, struct failure *failure)
{
    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    if (!problem->code || !(problem->code->functions & CLATTN_CODE_MASK) ||
        problem->alignment == CLATTN_ALIGN_OFFSETS) {
        return 1;
    }
    begin_mask_text(options, problem, mask);
    user_text_place(text, &call, &host);
    return user_blocks_make(options, context, &mask->problem, &call, &host, &mask->blocks, failure) != 0
               ? -1
               : count_pairs(options, context, &call, &host, mask, failure);
}

static void print_mask_text(const struct mask_text *mask)
{
    char text[USER_BLOCKS_TEXT];
    printf("mask text: blocks %s\n", user_blocks_text(&mask->problem, &mask->blocks, text));
    if (mask->density >= 0) {
        printf("mask text: density %.4g: the share of all pairs of rows and keys that it lets see\n", mask->density);
    }
}

static void add_mask_text(cJSON *document, const struct mask_text *mask)
{
    cJSON *one = cJSON_AddObjectToObject(document, "mask_text");
    cJSON_AddNumberToObject(one, "block_rows", (double)mask->problem.block_mask_rows);
    cJSON_AddNumberToObject(one, "block_keys", (double)mask->problem.block_mask_keys);
    cJSON_AddNumberToObject(one, "blocks", (double)mask->blocks.all);
    cJSON_AddNumberToObject(one, "full_blocks", (double)mask->blocks.full);
    cJSON_AddNumberToObject(one, "partial_blocks", (double)mask->blocks.partial);
    if (mask->density >= 0) {
        cJSON_AddNumberToObject(one, "density", mask->density);
    }
}

/* `reads` NULL: of gradients, which no decoder asks for. `mask` NULL: there is no mask text. */
static void print_text(const clattn_problem *problem, const clattn_plan *plan, const struct token_reads *reads,
                       const struct mask_text *mask)
{
    char pools[PAGE_POOLS_TEXT];
    fputs(clattn_plan_explain(plan), stdout);
    if (mask) {
        print_mask_text(mask);
    }
    if (!reads) {
        return;
    }
    if (pools_of(problem) > 1) {
        printf("pool: %s\n", page_pools_text(problem, pools));
    }
    printf("a token: reads %lld bytes: %lld keys and values of %lld heads, %lld and %lld bytes each\n",
           (long long)reads->bytes, (long long)reads->keys, (long long)reads->heads, (long long)reads->key_bytes,
           (long long)reads->value_bytes);
}

/* What making the plan cost, and what the planner thought of each strategy. */
static void add_costs(cJSON *document, const clattn_plan *plan)
{
    clattn_plan_costs costs = CLATTN_PLAN_COSTS_INIT;
    clattn_estimate estimate = CLATTN_ESTIMATE_INIT;
    clattn_plan_get_costs(plan, &costs);
    cJSON_AddNumberToObject(document, "create_ms", costs.create_ms);
    cJSON_AddNumberToObject(document, "compile_ms", costs.compile_ms);
    cJSON_AddNumberToObject(document, "programs", (double)costs.programs);
    cJSON *estimates = cJSON_AddArrayToObject(document, "estimates");
    for (uint64_t i = 0; i < costs.strategies && clattn_plan_get_estimate(plan, i, &estimate) == CLATTN_OK; ++i) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "strategy", estimate.strategy);
        if (estimate.declined) {
            cJSON_AddStringToObject(one, "declined", estimate.declined);
        } else if (estimate.was_asked) {
            cJSON_AddNumberToObject(one, "call_ms", estimate.call_ms);
        }
        cJSON_AddItemToArray(estimates, one);
    }
}

static void add_token(cJSON *document, const struct token_reads *reads)
{
    cJSON *token = cJSON_AddObjectToObject(document, "token");
    cJSON_AddNumberToObject(token, "bytes", (double)reads->bytes);
    cJSON_AddNumberToObject(token, "keys", (double)reads->keys);
    cJSON_AddNumberToObject(token, "heads", (double)reads->heads);
    cJSON_AddNumberToObject(token, "key_bytes", (double)reads->key_bytes);
    cJSON_AddNumberToObject(token, "value_bytes", (double)reads->value_bytes);
}

static int print_json(const clattn_context *context, const clattn_problem *problem, const clattn_plan *plan,
                      const struct token_reads *reads, const struct mask_text *mask, struct failure *failure)
{
    cJSON *document = document_begin("explain", context);
    cJSON_AddStringToObject(document, "strategy", clattn_plan_strategy(plan));
    cJSON_AddNumberToObject(document, "workspace_bytes", (double)clattn_plan_workspace(plan));
    cJSON_AddNumberToObject(document, "weight_rounding", clattn_plan_weight_rounding(plan));
    add_costs(document, plan);
    if (reads) {
        add_token(document, reads);
    }
    if (mask) {
        add_mask_text(document, mask);
    }
    if (problem->page_size > 0) {
        page_pools_tell(document, problem);
    }
    document_add_lines(document, "explanation", clattn_plan_explain(plan));
    return document_print(document, failure);
}

static clattn_status make_plan(const struct options *options, clattn_context *context, const clattn_problem *problem,
                               clattn_plan **plan)
{
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    backward.forward = problem;
    backward.strategy = problem->strategy;
    backward.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    return options->value[OPTION_EXPLAIN_BACKWARD] ? clattn_backward_plan_create(context, &backward, plan)
                                                   : clattn_plan_create(context, problem, plan);
}

static int describe(const struct options *options, clattn_context *context, const clattn_problem *problem,
                    const clattn_plan *plan, const struct user_text *text, struct failure *failure)
{
    const struct token_reads found = find_token_reads(problem);
    const struct token_reads *reads = options->value[OPTION_EXPLAIN_BACKWARD] ? NULL : &found;
    struct mask_text mask = { .density = -1 };
    const int has_mask = find_mask_text(options, context, problem, text, &mask, failure);
    int result = has_mask < 0 ? -1 : 0;
    if (result == 0 && options->value[OPTION_JSON]) {
        result = print_json(context, problem, plan, reads, has_mask == 0 ? &mask : NULL, failure);
    } else if (result == 0) {
        print_text(problem, plan, reads, has_mask == 0 ? &mask : NULL);
    }
    user_blocks_free(&mask.blocks);
    return result;
}

static int explain_on(const struct options *options, clattn_context *context, clattn_problem *problem,
                      const struct user_text *text, struct failure *failure)
{
    clattn_plan *plan;
    int result;
    page_pools_fit(options, context, problem);
    progress_begin("explain", "compiling kernels");
    const clattn_status status = make_plan(options, context, problem, &plan);
    progress_end();
    if (status == CLATTN_OK) {
        result = describe(options, context, problem, plan, text, failure);
        clattn_plan_destroy(plan);
    } else {
        library_failure(options, status, failure);
        result = user_text_quote(text, failure);
    }
    return result;
}

/* Several devices: what each would do with all of it. How they divide it the first call finds out. */
static int explain(const struct options *options, const clattn_problem *problem, const struct user_text *text,
                   struct failure *failure)
{
    static const enum option_id alone[] = { OPTION_JSON, OPTION_NONE };
    struct several several;
    int result = several_open(options, alone, &several, failure);
    for (size_t n = 0; result == 0 && n < several_count(&several); n++) {
        clattn_problem copy = *problem; /* pools are fitted to a device */
        result = explain_on(options, several_context(&several, n), &copy, text, failure);
        if (several.group && result == 0) {
            printf("\n");
        }
    }
    if (several.group && result == 0) {
        printf("together: batch entries, heads, rows or keys are divided by speed, as the first call measures it; "
               "clattn run and bench tell how\n");
    }
    several_close(&several);
    return result;
}

static int run(const struct options *options, struct failure *failure)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    struct user_text text = { .source = NULL };
    int result = problem_without_data_read(options, &problem, failure);
    if (result == 0 && user_text_read(options, &text, failure) == 0 &&
        user_text_complete(&text, &problem, failure) == 0 && user_blocks_read(options, &problem, failure) == 0) {
        result = explain(options, &problem, &text, failure);
    } else {
        result = -1;
    }
    user_text_free(&text);
    return result;
}

static const struct option_group groups[] = {
    { "The problem",
      { OPTION_SHAPE, OPTION_TYPE, OPTION_CAUSAL, OPTION_ALIGN, OPTION_WINDOW, OPTION_ALWAYS, OPTION_MASK_KIND,
        OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_KEY_LENGTHS, OPTION_WITH_SINKS, OPTION_WITH_VARLEN,
        OPTION_WITH_LSE, OPTION_WITH_WEIGHTS } },
    { "How keys and values are kept",
      { OPTION_PAGE_SIZE, OPTION_POOLS, OPTION_KEY_TYPE, OPTION_VALUE_TYPE, OPTION_RING, OPTION_VALUE_IN_KEY } },
    { "Scores of your own",
      { OPTION_SCORE, OPTION_SCORE_TEXT, OPTION_MASK_TEXT, OPTION_SLOPE_TEXT, OPTION_TEXT_INPUTS, OPTION_BLOCKS } },
    { "How",
      { OPTION_EXPLAIN_BACKWARD, OPTION_DEVICE, OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32, OPTION_ROUNDED_WEIGHTS,
        OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_explain = {
    "explain",
    "Tells which strategy a problem takes on a device, its tiles and its workspace, and why each "
    "other "
    "strategy was not taken.",
    "--shape B,HQ,HKV,LQ,LK,D[,DV] [OPTION]...",
    NULL,
    groups,
    "Example:\n  clattn explain --shape 1,32,8,1024,1024,128 --causal top-left --dtype f16\n",
    run,
};
