#include "run_key_sums.h"

#include <stdio.h>

#include "clattn_key_sums.h"
#include "library.h"
#include "results.h"
#include "summary.h"

int key_sums_check_options(const struct options *options, struct failure *failure)
{
    static const enum option_id sums[] = { OPTION_KEY_SUMS, OPTION_NONE };
    int64_t rows;
    return option_needs(options, OPTION_KEY_SUM_ROWS, sums, failure) != 0
               ? -1
               : option_integer(options, OPTION_KEY_SUM_ROWS, 1, INT64_MAX, &rows, failure);
}

static int asked(const struct options *options)
{
    return options->value[OPTION_KEY_SUMS] || options->value[OPTION_MAX_LOGIT];
}

/* The options were checked. */
static clattn_key_sums_problem problem_of(const struct options *options, const struct attention *attention)
{
    clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
    struct failure ignored;
    problem.forward = &attention->problem;
    problem.outputs = (options->value[OPTION_KEY_SUMS] ? CLATTN_KEY_SUMS : 0u) |
                      (options->value[OPTION_MAX_LOGIT] ? CLATTN_MAX_LOGIT : 0u);
    option_integer(options, OPTION_KEY_SUM_ROWS, 1, INT64_MAX, &problem.last_rows, &ignored);
    return problem;
}

/* [lead..., heads] and, of sums, keys; of packed sequences the first axis counts these. */
static int make_tensor(const struct attention *attention, int with_keys, struct tensor *tensor,
                       clattn_host_tensor *host, struct failure *failure)
{
    const struct axes *query = &attention->query;
    const clattn_problem *problem = &attention->problem;
    const int64_t keys = with_keys ? problem->key_len : 1;
    int64_t shape[TENSOR_DIMS_MAX + 2];
    int dims = 0;
    for (; dims < query->lead_dims; dims++) {
        shape[dims] = query->lead[dims];
    }
    if (attention->layout == LAYOUT_THD) {
        shape[dims++] = problem->batch;
    }
    if (query->has_heads) {
        shape[dims++] = query->heads;
    }
    if (with_keys) {
        shape[dims++] = keys;
    }
    if (tensor_create(tensor, problem->type == CLATTN_FLOAT64 ? TENSOR_FLOAT64 : TENSOR_FLOAT32, dims, shape,
                      with_keys ? "key_sums" : "max_logit", failure) != 0) {
        return -1;
    }
    host->data = tensor->data;
    clattn_strides_bhsd(query->heads, 1, keys, host->stride);
    return 0;
}

static int make_tensors(const clattn_key_sums_problem *problem, const struct attention *attention, struct tensor *sums,
                        struct tensor *largest, clattn_host_key_sums *host, struct failure *failure)
{
    clattn_host_key_sums_init(host, sizeof *host);
    if (problem->outputs & CLATTN_KEY_SUMS && make_tensor(attention, 1, sums, &host->key_sums, failure) != 0) {
        return -1;
    }
    return problem->outputs & CLATTN_MAX_LOGIT ? make_tensor(attention, 0, largest, &host->max_logit, failure) : 0;
}

int key_sums_compute(const struct options *options, clattn_context *context, struct attention *attention,
                     struct failure *failure)
{
    const clattn_key_sums_problem problem = problem_of(options, attention);
    clattn_host_key_sums host;
    if (!asked(options)) {
        return 0;
    }
    if (make_tensors(&problem, attention, &attention->key_sums, &attention->max_logit, &host, failure) != 0) {
        return -1;
    }
    const clattn_status status = clattn_key_sums_host(context, &problem, &attention->values, &attention->host, &host);
    return status == CLATTN_OK ? 0 : library_failure(options, status, failure);
}

/* ---- comparing ---- */

static int is_too_large(const clattn_problem *p, double budget)
{
    return (double)p->batch * (double)p->query_heads * (double)p->query_len * (double)p->key_len * (double)p->head_dim >
           budget;
}

int key_sums_compare(cJSON *document, const struct options *options, const struct attention *attention, double budget,
                     struct failure *failure)
{
    const clattn_key_sums_problem problem = problem_of(options, attention);
    struct tensor sums = TENSOR_INIT, largest = TENSOR_INIT;
    clattn_host_key_sums host;
    int wrong = 0;
    if (!asked(options)) {
        return 0;
    }
    if (attention->problem.code) {
        return failure_misuse(failure, "--check: of sums with a text there is no reference; leave one of them out");
    }
    if (is_too_large(&attention->problem, budget)) {
        summary_item(document, "not checked", "not_checked", "sums of weights and largest logits, of so many pairs");
        return 0;
    }
    int result = make_tensors(&problem, attention, &sums, &largest, &host, failure);
    if (result == 0 && clattn_reference_key_sums(&problem, &attention->values, &attention->host, &host) != CLATTN_OK) {
        result = failure_failed(failure, "check: the reference: %s", clattn_last_error());
    }
    if (result == 0) {
        wrong = results_compare_sums(document, options, attention, &sums, &largest);
    }
    tensor_free(&sums);
    tensor_free(&largest);
    return result == 0 && wrong ? failure_failed(failure, "check: %d of the sums and largest logits are wrong", wrong)
                                : result;
}
