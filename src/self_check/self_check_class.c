/* What a verdict is on, besides the plan's kernels: all of a problem that a check sees. */
#include <inttypes.h>

#include "operation/pools.h"
#include "self_check/self_check_call.h"

/* Verdicts on disk are of one version: raise it with every change of what is asked or of what is a right answer. */
#define CHECK_VERSION 3

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

/* Sizes that a check cuts off are one. */
void check_describe(const struct any_problem *any, struct text *text)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    int64_t equal_rows, equal_keys;
    const int has_equal = check_equal_lengths(p, check_is_of_gradients(any), &equal_rows, &equal_keys);
    const int64_t numbers[] = {
        p->type,
        at_most(p->batch, 2),
        problem_group(p),
        at_most(p->kv_heads, 2),
        at_most(p->query_len, CHECK_ROWS),
        at_most(p->key_len, CHECK_KEYS),
        check_long_keys(p),
        has_equal ? equal_rows : 0,
        has_equal ? equal_keys : 0,
        p->head_dim,
        p->head_dim_v,
        p->features,
        p->bias_type,
        p->weights,
        p->causal,
        p->alignment,
        at_most(p->window_left, CHECK_WINDOW),
        at_most(p->window_right, CHECK_KEYS),
        at_most(p->always_visible_keys, CHECK_PINNED),
        p->softcap > 0,
        p->dropout > 0,
        p->strided_columns,
        p->matmul,
        p->allow_tf32,
        p->allow_rounded_weights,
        p->key_type,
        p->value_type,
        p->out_type,
        p->page_size,
        p->key_scale_rows,
        p->key_scale_columns,
        p->value_scale_rows,
        p->value_scale_columns,
        p->slopes_type,
        p->sinks_type,
        at_most(p->ring, CHECK_KEYS),
    };
    text_append(text, "%d", CHECK_VERSION);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        text_append(text, " %" PRId64, numbers[i]);
    }
    if (pools_of(p) > 1) {
        text_append(text, " pools %d", pools_of(p));
    }
    if (any->code) {
        text_append(text, " code %s", any->code->digest);
    }
    if (check_is_of_gradients(any)) {
        const struct backward_problem *b = backward_problem(any);
        text_append(text, " gradients %u %u %u %d %d %d %d", b->p.gradients, b->p.accumulate, b->p.features,
                    (int)b->dquery_type, (int)b->dkey_type, (int)b->dvalue_type, (int)b->dbias_type);
    }
}
