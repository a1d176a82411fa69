/* Calls with NaN and infinities beside the reference: what is compared is the kind of each output. */
#include "exact_not_finite.h"

#include <math.h>
#include <stdio.h>

/* One output of a call, and what the reference has there. */
struct pair {
    double got, want;
    int64_t b, h, i, c;
};

static struct pair pair_at(const struct test_call *test, const struct test_call *reference, int64_t n)
{
    const clattn_problem *p = &test->problem;
    const int64_t row = n / p->head_dim_v;
    struct pair pair = { .b = row / p->query_len / p->query_heads, .h = row / p->query_len % p->query_heads,
                         .i = row % p->query_len, .c = n % p->head_dim_v };
    pair.got = test_call_get(test, TENSOR_OUT, pair.b, pair.h, pair.i, pair.c);
    pair.want = test_call_get(reference, TENSOR_OUT, pair.b, pair.h, pair.i, pair.c);
    return pair;
}

/* Both calls with what `put` puts into their inputs. `differs` tells of one output. 0: none does. */
static int compare(struct exact *e, const clattn_problem *p, void (*put)(struct test_call *test),
                   int (*differs)(const struct pair *pair))
{
    struct test_call test, reference;
    exact_build(&test, p, 0);
    exact_build(&reference, p, 0);
    put(&test);
    put(&reference);
    int status = exact_run(e, &test);
    if (status == 0 && clattn_reference_forward(&reference.problem, &reference.tensors) != CLATTN_OK) {
        snprintf(e->what, sizeof(e->what), "reference: %s", clattn_last_error());
        status = -1;
    }
    const int64_t outputs = p->batch * p->query_heads * p->query_len * p->head_dim_v;
    int64_t zeros = 0, not_finite = 0;
    for (int64_t n = 0; status == 0 && n < outputs; ++n) {
        const struct pair pair = pair_at(&test, &reference, n);
        zeros += fabs(pair.want) <= 0;
        not_finite += !isfinite(pair.want);
        if (differs(&pair)) {
            snprintf(e->what, sizeof(e->what), "out[%d, %d, %d, %d] is %.9g, not %.9g", (int)pair.b, (int)pair.h,
                     (int)pair.i, (int)pair.c, pair.got, pair.want);
            status = -1;
        }
    }
    if (status == 0 && (!not_finite || (p->dropout > 0 && !zeros))) {
        snprintf(e->what, sizeof(e->what), "the reference has %d outputs of 0 and %d not finite: nothing is tested",
                 (int)zeros, (int)not_finite);
        status = -1;
    }
    test_call_free(&test);
    test_call_free(&reference);
    return status;
}

/* Scores of head 0 are NaN (batch 0) or infinite (batch 1) at some keys of each tile; a column of values of head 1
 * is infinite there. */
static void put_scores(struct test_call *test)
{
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t i = 0; i < test->problem.query_len; ++i) {
            test_call_set(test, TENSOR_QUERY, b, 0, i, 3, 1);
        }
        for (int64_t j = 7; j < test->problem.key_len; j += 20) {
            test_call_set(test, TENSOR_KEY, b, 0, j, 3, b ? (double)INFINITY : (double)NAN);
            test_call_set(test, TENSOR_VALUE, b, 1, j, 5, (double)INFINITY);
        }
    }
}

/* NaN and infinity count as one: 0 times infinity. */
static int zero_or_kind_differs(const struct pair *pair)
{
    return fabs(pair->want) <= 0 ? !(fabs(pair->got) <= 0) : isfinite(pair->want) != isfinite(pair->got);
}

int dropped_rows_are_zero(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 2, 40, 150, 24, 40);
    p.dropout = 0.98;
    return compare(e, &p, put_scores, zero_or_kind_differs);
}

/* Columns 1 to 4 of head 0 have +infinity, -infinity, both, and NaN, at keys that, where the call is causal, only
 * later rows see. */
static void put_values(struct test_call *test)
{
    for (int64_t b = 0; b < 2; ++b) {
        test_call_set(test, TENSOR_VALUE, b, 0, 41, 1, (double)INFINITY);
        test_call_set(test, TENSOR_VALUE, b, 0, 55, 2, (double)-INFINITY);
        test_call_set(test, TENSOR_VALUE, b, 0, 3, 3, (double)INFINITY);
        test_call_set(test, TENSOR_VALUE, b, 0, 70, 3, (double)-INFINITY);
        test_call_set(test, TENSOR_VALUE, b, 0, 70, 4, (double)NAN);
    }
}

static int kind_differs(const struct pair *pair)
{
    return isnan(pair->want) != isnan(pair->got) || isinf(pair->want) != isinf(pair->got) ||
           (isinf(pair->want) && signbit(pair->want) != signbit(pair->got));
}

int infinite_values_stay(struct exact *e)
{
    const clattn_problem p = exact_problem(e, 2, 2, 2, 100, 150, 24, 40);
    return compare(e, &p, put_values, kind_differs);
}

int infinite_values_stay_where_seen(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 2, 100, 150, 24, 40);
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    return compare(e, &p, put_values, kind_differs);
}
