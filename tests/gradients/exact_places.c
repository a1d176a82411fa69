/* Gradients against the reference where rows see a part of a tile, by their place or by ranges of their own. */
#include <math.h>

#include "exact_others.h"
#include "kinds.h"

/* Row i of 100 sees keys from i / 2 on, and 30 of them: the first and the last row of a tile see others. */
static double range_low(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)context;
    return (double)(index[2] / 2);
}

static double range_high(struct random *random, const int64_t index[4], const void *context)
{
    return range_low(random, index, context) + 30;
}

/* nan_value: a value that is not a number, or -1. */
static void check_place(const char *strategy, const char *what, const clattn_problem *problem, int64_t nan_value)
{
    struct gradient_call g;
    struct gradient_verdict verdict;
    struct random random = random_start(11, 1);
    kind_begin(&g, problem, strategy, kind_normal);
    if (test_call_has(&g.test, TENSOR_ROW_LOW)) {
        test_call_fill(&g.test, TENSOR_ROW_LOW, &random, range_low, NULL);
        test_call_fill(&g.test, TENSOR_ROW_HIGH, &random, range_high, NULL);
    }
    for (int64_t c = 0; c < problem->head_dim_v && nan_value >= 0; ++c) {
        kind_set(&g.test.arrays[TENSOR_VALUE], nan_value * problem->head_dim_v + c, NAN);
    }
    const int ran = kind_finish(&g, kind_normal) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    kind_report(strategy, what, ran && kind_check(&g, &verdict) && verdict.wrong == 0);
    gradient_call_free(&g);
}

void exact_places(const char *strategy)
{
    const struct kind kind = { "places", 1, 2, 1, 100, 90, 20, 12, 0, 0 };
    clattn_problem p = kind_problem(&kind);
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    check_place(strategy, "causal, within tiles", &p, -1);
    p.causal = 0;
    p.key_len = 200;
    p.query_len = 200;
    p.window_left = 9;
    p.window_right = 2;
    p.always_visible_keys = 3;
    check_place(strategy, "keys that are always visible, before a window", &p, -1);
    check_place(strategy, "a NaN among the values of a later tile, before a window", &p, 150);
    p = kind_problem(&kind);
    p.features |= CLATTN_WITH_ROW_RANGES;
    check_place(strategy, "ranges of rows", &p, -1);
}
