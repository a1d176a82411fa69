/* What the strategies with a K/V split share on the host. */
#include "plan/kv_split.h"

#include "base/checked_math.h"

#define COLUMNS_MOST 4096 /* head_dim, head_dim_v */

static int has_lists(const clattn_problem *p)
{
    return (p->features & CLATTN_WITH_KEY_LISTS) != 0;
}

static int64_t at_least_one(int64_t count)
{
    return count > 0 ? count : 1;
}

struct kv_row_blocks kv_row_blocks_of(const clattn_problem *p, int most)
{
    const int64_t all = at_least_one(problem_head_rows(p));
    const int64_t of_list = has_lists(p) ? at_least_one(problem_list_rows(p) * problem_group(p)) : all;
    const int64_t blocks = ceil_div(of_list, most), lists = ceil_div(all, of_list);
    return (struct kv_row_blocks){ (int)ceil_div(of_list, blocks), (int)(blocks * lists) };
}

int64_t kv_call_blocks(const clattn_problem *p, int64_t head_rows, int most)
{
    return has_lists(p) ? kv_row_blocks_of(p, most).blocks : ceil_div(head_rows, most);
}

int64_t kv_keys_of(const clattn_problem *p, int64_t key_len)
{
    return has_lists(p) ? p->key_list_keys : key_len;
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
    const int64_t all = splits_from_one(kv_keys_of(p, key_len), split_keys), span = window_span(p);
    if (span < 0 || has_lists(p)) {
        return all;
    }
    const int64_t pinned = p->always_visible_keys > 0 ? splits_from_one(p->always_visible_keys, split_keys) : 0;
    const int64_t seen = pinned + span / split_keys + 2; /* a span ends and begins inside of splits */
    return seen < all ? seen : all;
}

size_t kv_split_workspace_bytes(const clattn_problem *p, int split_keys, int rows_at_once)
{
    const struct kv_row_blocks of_head = kv_row_blocks_of(p, rows_at_once);
    double floats = (double)p->batch * (double)p->kv_heads * (double)of_head.blocks * (double)of_head.rows *
                    (double)(SPLIT_COLUMNS(p->head_dim_v) + SPLIT_STATE) *
                    (double)kv_splits_of(p, p->key_len, split_keys);
    return floats * sizeof(float) < 1e18 ? (size_t)floats * sizeof(float) : SIZE_MAX;
}

int kv_split_applicable(struct ask *ask, int split_keys, int rows_at_once, int rows_most)
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
    if (!has_lists(p) && problem_head_rows(p) > rows_most) {
        return ask_declines(ask, "%lld query rows of %lld heads share a key/value head: at most %d rows",
                            (long long)p->query_len, (long long)problem_group(p), rows_most);
    }
    const size_t workspace = kv_split_workspace_bytes(p, split_keys, rows_at_once);
    if (p->head_dim > COLUMNS_MOST || p->head_dim_v > COLUMNS_MOST) {
        return ask_declines(ask, "head_dim %lld, head_dim_v %lld: at most %d fit private memory",
                            (long long)p->head_dim, (long long)p->head_dim_v, COLUMNS_MOST);
    }
    return attention_is_served(ask, 0) &&
           (workspace <= ask->context->workspace_limit_bytes ||
            ask_declines(ask, "its workspace of %zu bytes is over the limit", workspace));
}

void kv_split_call_of(const struct clattn_plan *plan, const struct operands *operands, int split_keys, int rows_at_once,
                      struct kv_split_call *call)
{
    const clattn_problem *problem = &attention_problem(plan->problem)->p;
    const struct kv_row_blocks of_head = kv_row_blocks_of(problem, rows_at_once);
    attention_give(plan, operands, &call->given);
    const clattn_params *p = &call->given.params;
    call->workspace = operands->workspace;
    call->n_splits = (cl_int)kv_splits_of(problem, p->key_len, split_keys);
    call->heads = (size_t)p->kv_heads * (size_t)of_head.blocks;
    call->batch = (size_t)p->batch;
    call->rows = of_head.blocks > 1 ? (size_t)of_head.rows : (size_t)p->query_len * (size_t)problem_group(problem);
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
