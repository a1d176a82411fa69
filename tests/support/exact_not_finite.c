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

/* How many outputs of a head the reference has. */
struct kinds {
    int zeros, nans;
};

/* Both calls with what `put` puts into their inputs. `differs` tells of one output, `says_something` of each head of
 * the reference; NULL: all do. 0: nothing differs. */
static int compare(struct exact *e, const clattn_problem *p, void (*put)(struct test_call *test),
                   int (*differs)(const struct pair *pair), int (*says_something)(const struct kinds *kinds))
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
    struct kinds kinds = { 0, 0 };
    for (int64_t n = 0; status == 0 && n < outputs; ++n) {
        const struct pair pair = pair_at(&test, &reference, n);
        kinds.zeros += fabs(pair.want) <= 0;
        kinds.nans += isnan(pair.want) != 0;
        if (differs(&pair)) {
            snprintf(e->what, sizeof(e->what), "out[%d, %d, %d, %d] is %.9g, not %.9g", (int)pair.b, (int)pair.h,
                     (int)pair.i, (int)pair.c, pair.got, pair.want);
            status = -1;
        } else if ((n + 1) % (p->query_len * p->head_dim_v) == 0) {
            if (says_something && !says_something(&kinds)) {
                snprintf(e->what, sizeof(e->what), "head %d of batch %d has %d zeros and %d NaN: nothing is tested",
                         (int)pair.h, (int)pair.b, kinds.zeros, kinds.nans);
                status = -1;
            }
            kinds = (struct kinds){ 0, 0 };
        }
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

/* NaN and infinity count as one where scores are infinite: 0 times infinity. */
static int zero_or_kind_differs(const struct pair *pair)
{
    const int zero_differs = fabs(pair->want) <= 0 && !(fabs(pair->got) <= 0);
    return zero_differs || isfinite(pair->want) != isfinite(pair->got) ||
           (pair->h == 1 && isnan(pair->want) != isnan(pair->got));
}

static int has_zeros_and_nans(const struct kinds *kinds)
{
    return kinds->zeros && kinds->nans;
}

int dropped_rows_are_zero(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 2, 40, 150, 24, 40);
    p.dropout = 0.98;
    return compare(e, &p, put_scores, zero_or_kind_differs, has_zeros_and_nans);
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
    return compare(e, &p, put_values, kind_differs, NULL);
}

int infinite_values_stay_where_seen(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 2, 100, 150, 24, 40);
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    return compare(e, &p, put_values, kind_differs, NULL);
}
