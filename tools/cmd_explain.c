/* clattn explain: which strategy a problem would take, and why each other one declined. */
#include <stdio.h>

#include "clattn_backward.h"
#include "clattn_costs.h"
#include "commands.h"
#include "document.h"
#include "library.h"
#include "operation/pools.h"
#include "page_pools.h"
#include "problem_options.h"
#include "progress.h"

static int64_t row_bytes(clattn_type stored, clattn_type type, int64_t columns)
{
    return (int64_t)clattn_row_bytes(stored ? stored : type, columns);
}

/* What a decoder's next token reads of its sequence: the rows of all heads that its position may see. */
struct token_reads {
    int64_t bytes, keys, heads, key_bytes, value_bytes; /* key_bytes, value_bytes: of a row */
};

static struct token_reads find_token_reads(const clattn_problem *p)
{
    const int64_t seen = p->window_left + 1 + p->always_visible_keys;
    struct token_reads reads = { 0, p->window_left >= 0 && seen < p->key_len ? seen : p->key_len, p->kv_heads,
                                 row_bytes(p->key_type, p->type, p->head_dim),
                                 row_bytes(p->value_type, p->type, p->head_dim_v) };
    reads.bytes = reads.keys * reads.heads * (reads.key_bytes + reads.value_bytes);
    return reads;
}

/* `reads` NULL: of gradients, which no decoder asks for. */
static void print_text(const clattn_problem *problem, const clattn_plan *plan, const struct token_reads *reads)
{
    char pools[PAGE_POOLS_TEXT];
    fputs(clattn_plan_explain(plan), stdout);
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
                      const struct token_reads *reads, struct failure *failure)
{
    cJSON *document = document_begin("explain", context);
    cJSON_AddStringToObject(document, "strategy", clattn_plan_strategy(plan));
    cJSON_AddNumberToObject(document, "workspace_bytes", (double)clattn_plan_workspace(plan));
    cJSON_AddNumberToObject(document, "weight_rounding", clattn_plan_weight_rounding(plan));
    add_costs(document, plan);
    if (reads) {
        add_token(document, reads);
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

static int run(const struct options *options, struct failure *failure)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_context *context;
    clattn_plan *plan;
    clattn_status status;
    int result = 0;
    if (problem_without_data_read(options, &problem, failure) != 0) {
        return -1;
    }
    if (library_open(options, &context, failure) != 0) {
        return -1;
    }
    page_pools_fit(options, context, &problem);
    progress_begin("explain", "compiling kernels");
    status = make_plan(options, context, &problem, &plan);
    progress_end();
    if (status == CLATTN_OK) {
        const struct token_reads found = find_token_reads(&problem);
        const struct token_reads *reads = options->value[OPTION_EXPLAIN_BACKWARD] ? NULL : &found;
        if (options->value[OPTION_JSON]) {
            result = print_json(context, &problem, plan, reads, failure);
        } else {
            print_text(&problem, plan, reads);
        }
        clattn_plan_destroy(plan);
    } else {
        result = library_failure(options, status, failure);
    }
    clattn_context_destroy(context);
    return result;
}

static const struct option_group groups[] = {
    { "The problem",
      { OPTION_SHAPE, OPTION_TYPE, OPTION_CAUSAL, OPTION_ALIGN, OPTION_WINDOW, OPTION_ALWAYS, OPTION_MASK_KIND,
        OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_KEY_LENGTHS, OPTION_WITH_SINKS, OPTION_WITH_VARLEN,
        OPTION_WITH_LSE, OPTION_WITH_WEIGHTS } },
    { "How keys and values are kept",
      { OPTION_PAGE_SIZE, OPTION_POOLS, OPTION_KEY_TYPE, OPTION_VALUE_TYPE, OPTION_RING } },
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
