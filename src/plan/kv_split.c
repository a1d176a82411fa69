/* What the strategies with a K/V split share on the host. */
#include "plan/kv_split.h"

#include "base/checked_math.h"

#define COLUMNS_MOST 4096 /* head_dim, head_dim_v */

int64_t kv_split_rows_of(const clattn_problem *p)
{
    return p->query_len * problem_group(p);
}

int kv_split_rows(const clattn_problem *p)
{
    return kv_split_rows_of(p) > 0 ? (int)kv_split_rows_of(p) : 1;
}

static int64_t splits_from_one(int64_t keys, int split_keys)
{
    return keys > 0 ? ceil_div(keys, split_keys) : 1;
}

/* The most keys between the first that the first row's window has and the last that the last row sees; -1: no bound. */
static int64_t window_span(const clattn_problem *p)
{
    const int64_t kept = p->ring > 0 ? p->ring - p->always_visible_keys : INT64_MAX;
    int64_t span = INT64_MAX;
    if (p->window_left >= 0 && (p->causal || p->window_right >= 0)) {
        span = p->window_left + p->query_len + (p->causal ? 0 : p->window_right);
    }
    span = kept < span ? kept : span;
    return p->window_left >= 0 && span < INT64_MAX ? span : -1;
}

int64_t kv_splits_of(const clattn_problem *p, int64_t key_len, int split_keys)
{
    const int64_t all = splits_from_one(key_len, split_keys), span = window_span(p);
    if (span < 0) {
        return all;
    }
    const int64_t pinned = p->always_visible_keys > 0 ? splits_from_one(p->always_visible_keys, split_keys) : 0;
    const int64_t seen = pinned + span / split_keys + 2; /* a span ends and begins inside of splits */
    return seen < all ? seen : all;
}

size_t kv_split_workspace_bytes(const clattn_problem *p, int split_keys)
{
    double floats = (double)p->batch * (double)p->query_heads * (double)p->query_len *
                    (double)(SPLIT_COLUMNS(p->head_dim_v) + SPLIT_STATE) *
                    (double)kv_splits_of(p, p->key_len, split_keys);
    return floats * sizeof(float) < 1e18 ? (size_t)floats * sizeof(float) : SIZE_MAX;
}

int kv_split_applicable(struct ask *ask, int split_keys, int rows_most)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    if (p->type == CLATTN_FLOAT64) {
        return ask_declines(ask, "computes in float32");
    }
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        return ask_declines(ask, "has no matrix of weights to give out");
    }
    if (p->dropout > 0) {
        return ask_declines(ask, "has no dropout: it is for decoding");
    }
    if (p->strided_columns) {
        return ask_declines(ask, "reads columns of stride 1");
    }
    if (p->query_len > rows_most || kv_split_rows_of(p) > rows_most) {
        return ask_declines(ask, "%lld query rows of %lld heads share a key/value head: at most %d rows",
                            (long long)p->query_len, (long long)problem_group(p), rows_most);
    }
    if (p->head_dim > COLUMNS_MOST || p->head_dim_v > COLUMNS_MOST) {
        return ask_declines(ask, "head_dim %lld, head_dim_v %lld: at most %d fit private memory",
                            (long long)p->head_dim, (long long)p->head_dim_v, COLUMNS_MOST);
    }
    return attention_is_served(ask, 0) &&
           (kv_split_workspace_bytes(p, split_keys) <= ask->context->workspace_limit_bytes ||
            ask_declines(ask, "its workspace of %zu bytes is over the limit", kv_split_workspace_bytes(p, split_keys)));
}

void kv_split_call_of(const struct clattn_plan *plan, const struct operands *operands, int split_keys,
                      struct kv_split_call *call)
{
    attention_give(plan, operands, &call->given);
    const clattn_params *p = &call->given.params;
    call->workspace = operands->workspace;
    call->n_splits = (cl_int)kv_splits_of(&attention_problem(plan->problem)->p, p->key_len, split_keys);
    call->heads = (size_t)p->kv_heads;
    call->batch = (size_t)p->batch;
    call->rows = (size_t)p->query_len * (size_t)problem_group(&attention_problem(plan->problem)->p);
    const size_t count = attention_arguments(&call->given, call->arguments);
    call->arguments[count] = (struct launch_argument)ARGUMENT(call->workspace);
    call->arguments[count + 1] = (struct launch_argument)ARGUMENT(call->n_splits);
    call->argument_count = count + 2;
}

clattn_status kv_split_launch(const struct kv_split_call *call, struct kernel *kernel, cl_uint dims,
                              const size_t *global, const size_t *local, struct chain *chain)
{
    return launch(chain, kernel, dims, global, local, call->argument_count, call->arguments);
}
