/* Outputs of a case beside those of its forward call. */
#include "case_key_sums.h"

#include <stdio.h>
#include <string.h>

#include "../../tools/npy.h"
#include "clattn_key_sums.h"
#include "operation/key_sums.h"
#include "plan/strategy.h"
#include "support/case_meta.h"

#define PATH_BYTES 4096

static int has_output(const struct attention_case *c, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(c->meta, "outputs"), name) != NULL;
}

int key_sums_case_is(const struct attention_case *c)
{
    return has_output(c, "key_sums") || has_output(c, "max_logit");
}

/* Strategies of attention need not have sums. */
static int has_strategy(const char *name)
{
    int found = name == NULL;
    for (size_t i = 0; i < strategy_count; ++i) {
        found |= strategy_table[i]->operation == &operation_key_sums && name &&
                 strcmp(strategy_table[i]->name, name) == 0;
    }
    return found;
}

static int write(const struct attention_case *c, const char *to, const char *name, const struct tensor *tensor,
                 struct failure *failure)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s.npy", to, name);
    return has_output(c, name) ? npy_write(path, tensor, failure) : 0;
}

static int solve(clattn_context *context, const char *to, const struct attention_case *c, struct tensor *key_sums,
                 struct tensor *max_logit, struct failure *failure)
{
    const int64_t heads = c->shape.query_heads, keys = c->problem.key_len;
    const int64_t shape[] = { c->shape.batch, heads, keys };
    clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
    clattn_host_key_sums sums = CLATTN_HOST_KEY_SUMS_INIT;
    if (tensor_create(key_sums, TENSOR_FLOAT32, 3, shape, "key_sums", failure) != 0 ||
        tensor_create(max_logit, TENSOR_FLOAT32, 2, shape, "max_logit", failure) != 0) {
        return -1;
    }
    problem.forward = &c->problem;
    problem.strategy = c->problem.strategy;
    problem.outputs = (has_output(c, "key_sums") ? CLATTN_KEY_SUMS : 0u) |
                      (has_output(c, "max_logit") ? CLATTN_MAX_LOGIT : 0u);
    if (problem.outputs & CLATTN_KEY_SUMS) {
        problem.last_rows = (int64_t)meta_number(meta_field(c->meta, "params", "key_sum_rows"), 0);
        sums.key_sums = clattn_host_tensor_bhsd(key_sums->data, heads, 1, keys);
    }
    if (problem.outputs & CLATTN_MAX_LOGIT) {
        sums.max_logit = clattn_host_tensor_bhsd(max_logit->data, heads, 1, 1);
    }
    const clattn_status status = context ? clattn_key_sums_host(context, &problem, &c->values, &c->tensors, &sums)
                                         : clattn_reference_key_sums(&problem, &c->values, &c->tensors, &sums);
    if (status == CLATTN_UNSUPPORTED && problem.strategy) {
        return 0;
    }
    if (status != CLATTN_OK) {
        return failure_failed(failure, "%s: %s", clattn_status_name(status), clattn_last_error());
    }
    const int result = write(c, to, "key_sums", key_sums, failure);
    return result == 0 ? write(c, to, "max_logit", max_logit, failure) : result;
}

int key_sums_case_solve(clattn_context *context, const char *to, const struct attention_case *c,
                        struct failure *failure)
{
    struct tensor key_sums = { 0 }, max_logit = { 0 };
    const int status =
        context && !has_strategy(c->problem.strategy) ? 0 : solve(context, to, c, &key_sums, &max_logit, failure);
    tensor_free(&key_sums);
    tensor_free(&max_logit);
    return status;
}
