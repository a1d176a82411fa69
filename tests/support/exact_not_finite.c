/* Calls beside the reference: with NaN and infinities, where the kind of each output is compared, and of each lse; and
 * with very small weights, which must not become 0. */
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
    struct pair pair = { .b = row / p->query_len / p->query_heads,
                         .h = row / p->query_len % p->query_heads,
                         .i = row % p->query_len,
                         .c = n % p->head_dim_v };
    pair.got = test_call_get(test, TENSOR_OUT, pair.b, pair.h, pair.i, pair.c);
    pair.want = test_call_get(reference, TENSOR_OUT, pair.b, pair.h, pair.i, pair.c);
    return pair;
}

/* How many outputs of a head the reference has. */
struct kinds {
    int zeros, nans;
};

static int kinds_differ(double got, double want)
{
    return isnan(want) != isnan(got) || isinf(want) != isinf(got) || (isinf(want) && signbit(want) != signbit(got));
}

/* A logarithm of 0 is what is not NaN where all logits are -infinity: either will do. */
static int lse_differs(struct exact *e, const struct test_call *test, const struct test_call *reference)
{
    const clattn_problem *p = &test->problem;
    for (int64_t row = 0; row < p->batch * p->query_heads * p->query_len; ++row) {
        const int64_t b = row / p->query_len / p->query_heads, h = row / p->query_len % p->query_heads;
        const double got = test_call_get(test, TENSOR_LSE, b, h, row % p->query_len, 0);
        const double want = test_call_get(reference, TENSOR_LSE, b, h, row % p->query_len, 0);
        if (isnan(want) ? isfinite(got) : kinds_differ(got, want)) {
            snprintf(e->what, sizeof(e->what), "lse[%d, %d, %d] is %.9g, not %.9g", (int)b, (int)h,
                     (int)(row % p->query_len), got, want);
            return -1;
        }
    }
    return 0;
}

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
    if (status == 0 &&
        clattn_reference_forward(&reference.problem, &reference.values, &reference.tensors) != CLATTN_OK) {
        snprintf(e->what, sizeof(e->what), "reference: %s", clattn_last_error());
        status = -1;
    }
    const int64_t outputs = p->batch * p->query_heads * p->query_len * p->head_dim_v;
    struct kinds kinds = { 0, 0 };
    int64_t special = 0;
    for (int64_t n = 0; status == 0 && n < outputs; ++n) {
        const struct pair pair = pair_at(&test, &reference, n);
        special += fabs(pair.want) <= 0 || !isfinite(pair.want);
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
    if (status == 0 && !special) {
        snprintf(e->what, sizeof(e->what), "the reference has neither zeros nor infinities nor NaN: nothing is tested");
        status = -1;
    }
    if (status == 0 && (p->features & CLATTN_WITH_LSE)) {
        status = lse_differs(e, &test, &reference);
    }
    test_call_free(&test);
    test_call_free(&reference);
    return status;
}

/* Scores of head 0 are NaN (batch 0) or infinite (batch 1, of either sign, by row) at some keys of each tile; a column
 * of values of head 1 is infinite there. */
static void put_scores(struct test_call *test)
{
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t i = 0; i < test->problem.query_len; ++i) {
            test_call_set(test, TENSOR_QUERY, b, 0, i, 3, (i / 2 + i / 8) % 2 ? -1 : 1);
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
    clattn_problem p = exact_problem(e, 2, 2, 2, 40, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.dropout = 0.98;
    return compare(e, &p, put_scores, zero_or_kind_differs, has_zeros_and_nans);
}

/* Queries of a head, so that column 3 of a key enters its score as it is. */
static void put_queries(struct test_call *test, int64_t b, int64_t h)
{
    for (int64_t i = 0; i < test->problem.query_len; ++i) {
        test_call_set(test, TENSOR_QUERY, b, h, i, 3, 1);
    }
}

/* All logits are -infinity, and a column of values has a NaN. */
static void put_no_sums(struct test_call *test)
{
    for (int64_t n = 0; n < 4; ++n) {
        const int64_t b = n / 2, h = n % 2;
        put_queries(test, b, h);
        for (int64_t j = 0; j < test->problem.key_len; ++j) {
            test_call_set(test, TENSOR_KEY, b, h, j, 3, (double)-INFINITY);
        }
        test_call_set(test, TENSOR_VALUE, b, h, 7, 5, (double)NAN);
    }
}

int dropped_values_count_0_times(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 2, 40, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.dropout = 0.98;
    return compare(e, &p, put_no_sums, zero_or_kind_differs, has_zeros_and_nans);
}

/* The first key has nearly all of each row's weight, the others 2^-35 of it and large values; column 0 is 0. */
static void put_large_weight(struct test_call *test)
{
    struct random random = random_start(21, 0);
    test_call_fill(test, TENSOR_QUERY, &random, value_zero, NULL);
    test_call_fill(test, TENSOR_KEY, &random, value_zero, NULL);
    test_call_fill(test, TENSOR_VALUE, &random, value_zero, NULL);
    test->values.scale = 1;
    for (int64_t h = 0; h < 2; ++h) {
        put_queries(test, 0, h);
        for (int64_t j = 0; j < test->problem.key_len; ++j) {
            test_call_set(test, TENSOR_KEY, 0, h, j, 3, j == 0 ? 0 : -24.25);
            for (int64_t c = 1; c < EXACT_HEAD_DIM_V; ++c) {
                test_call_set(test, TENSOR_VALUE, 0, h, j, c, j == 0 ? 1 : 32768 + 1024 * (double)(c % 16));
            }
        }
    }
}

/* By more than the last bits of bfloat16, or of float16 if that is the smaller part of it. */
static int differs_much(const struct pair *pair)
{
    return !(fabs(pair->got - pair->want) <= fmax(0x1p-8 * fabs(pair->want), 0x1p-24));
}

int dropped_weights_leave_others_exact(struct exact *e)
{
    clattn_problem p = exact_problem(e, 1, 2, 2, 40, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.dropout = 0.5;
    return compare(e, &p, put_large_weight, differs_much, NULL);
}

/* Logits are 0, the sinks 89: a key has less than 2^-126 of the weight, its value makes more of it. */
static void put_large_sinks(struct test_call *test)
{
    struct random random = random_start(22, 0);
    test_call_fill(test, TENSOR_QUERY, &random, value_zero, NULL);
    test_call_fill(test, TENSOR_VALUE, &random, value_zero, NULL);
    for (int64_t h = 0; h < 2; ++h) {
        test_call_set(test, TENSOR_SINKS, 0, h, 0, 0, 89);
        for (int64_t j = 0; j < test->problem.key_len; ++j) {
            for (int64_t c = 1; c < EXACT_HEAD_DIM_V; ++c) {
                test_call_set(test, TENSOR_VALUE, 0, h, j, c, 1024 + 8 * (double)(c % 16));
            }
        }
    }
}

static int differs_by_much_of_it(const struct pair *pair)
{
    return !(fabs(pair->got - pair->want) <= 0x1p-7 * fabs(pair->want));
}

int keys_beside_large_sinks_count(struct exact *e)
{
    clattn_problem p = exact_problem(e, 1, 2, 2, 40, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.features |= CLATTN_WITH_SINKS;
    return compare(e, &p, put_large_sinks, differs_by_much_of_it, NULL);
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
    return kinds_differ(pair->got, pair->want);
}

int infinite_values_stay(struct exact *e)
{
    const clattn_problem p = exact_problem(e, 2, 2, 2, 100, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    return compare(e, &p, put_values, kind_differs, NULL);
}

int infinite_values_stay_where_seen(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 2, 100, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    return compare(e, &p, put_values, kind_differs, NULL);
}

/* Logits of head 0 are -infinity for 700 keys, after a few that are not, and of head 1 all. */
static void put_logits(struct test_call *test)
{
    for (int64_t h = 0; h < 2; ++h) {
        put_queries(test, 0, h);
        for (int64_t j = h ? 0 : 5; j < (h ? test->problem.key_len : 705); ++j) {
            test_call_set(test, TENSOR_KEY, 0, h, j, 3, (double)-INFINITY);
        }
        if (test->problem.features & CLATTN_WITH_SINKS) {
            test_call_set(test, TENSOR_SINKS, 0, h, 0, 0, 0.5);
        }
    }
}

/* Or is not nearly the same. */
static int kind_or_value_differs(const struct pair *pair)
{
    return kind_differs(pair) || fabs(pair->got - pair->want) > 0.01 + 0.01 * fabs(pair->want);
}

static clattn_problem infinite_logits(const struct exact *e)
{
    clattn_problem p = exact_problem(e, 1, 2, 2, 3, 1100, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.features = CLATTN_WITH_LSE;
    return p;
}

int infinite_logits_count_nothing(struct exact *e)
{
    const clattn_problem p = infinite_logits(e);
    return compare(e, &p, put_logits, kind_or_value_differs, NULL);
}

int infinite_logits_count_nothing_beside_sinks(struct exact *e)
{
    clattn_problem p = infinite_logits(e);
    p.features |= CLATTN_WITH_SINKS;
    return compare(e, &p, put_logits, kind_or_value_differs, NULL);
}

/* One row in the middle of many has an infinity. */
static void put_query(struct test_call *test)
{
    for (int64_t b = 0; b < 2; ++b) {
        test_call_set(test, TENSOR_QUERY, b, 1, 150, 3, (double)INFINITY);
    }
}

int infinite_query_spoils_its_row_alone(struct exact *e)
{
    const clattn_problem p = exact_problem(e, 2, 2, 2, 260, 150, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    return compare(e, &p, put_query, kind_or_value_differs, NULL);
}

/* The list of row 0 has every number below 15 and the largest there is, that of row 1 the last key, which is NaN. */
#define LISTED_KEYS 16
static void put_lists(struct test_call *test)
{
    const int64_t last = test->problem.key_len - 1;
    for (int64_t n = 0; n < LISTED_KEYS; ++n) {
        const int is_end = n == LISTED_KEYS - 1;
        test_call_set(test, TENSOR_KEY_LISTS, 0, 0, 0, n, (double)(is_end ? INT32_MAX : n));
        test_call_set(test, TENSOR_KEY_LISTS, 0, 0, 1, n, (double)(is_end ? last : n));
    }
    test_call_set(test, TENSOR_VALUE, 0, 0, last, 0, (double)NAN);
}

int listed_numbers_of_no_key_are_hidden(struct exact *e)
{
    clattn_problem p = exact_problem(e, 1, 1, 1, 2, 40, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.features = CLATTN_WITH_KEY_LISTS;
    p.key_list_rows = 1;
    p.key_list_keys = LISTED_KEYS;
    return compare(e, &p, put_lists, kind_or_value_differs, NULL);
}
