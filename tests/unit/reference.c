/* The reference: small examples by hand, what rows without keys get, where NaN may go, merging; and
 * random problems against a second implementation (support/naive.c) that shares no line with it. */
#include "reference/reference.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "suite.h"
#include "support/merge_two.h"
#include "support/naive.h"
#include "support/random_call.h"
#include "support/tolerance.h"

/* ---- by hand -------------------------------------------------------------------------------- */

/* One head, one column: logits are query[i] * key[j], scale 1. */
static void start_small(struct test_call *test, clattn_problem p, int64_t queries, int64_t keys, const double *query,
                        const double *key, const double *value)
{
    p.type = CLATTN_FLOAT64;
    p.query_len = queries;
    p.key_len = keys;
    p.head_dim = 1;
    p.features |= CLATTN_WITH_LSE;
    test_call_start(test, &p);
    test_call_place_all(test);
    for (int64_t i = 0; i < queries; ++i) {
        test_call_set(test, TENSOR_QUERY, 0, 0, i, 0, query[i]);
    }
    for (int64_t j = 0; j < keys; ++j) {
        test_call_set(test, TENSOR_KEY, 0, 0, j, 0, key[j]);
        test_call_set(test, TENSOR_VALUE, 0, 0, j, 0, value[j]);
    }
    test->values.has_scale = 1;
    test->values.scale = 1;
}

static void ck_row(struct test_call *test, int64_t i, double out, double lse)
{
    ck_assert_double_eq_tol(test_call_get(test, TENSOR_OUT, 0, 0, i, 0), out, 1e-14);
    if (isinf(lse)) {
        ck_assert_double_eq(test_call_get(test, TENSOR_LSE, 0, 0, i, 0), lse);
    } else {
        ck_assert_double_eq_tol(test_call_get(test, TENSOR_LSE, 0, 0, i, 0), lse, 3e-7);
    }
}

static void run(struct test_call *test)
{
    clattn_status status = clattn_reference_forward(&test->problem, &test->values, &test->tensors);
    ck_assert_msg(status == CLATTN_OK, "%s", clattn_last_error());
}

/* Logits 0 and ln 3: weights 1/4 and 3/4. */
START_TEST(test_two_keys)
{
    const double query[] = { 1 }, key[] = { 0, 1.0986122886681098 }, value[] = { 8, 16 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    start_small(&test, p, 1, 2, query, key, value);
    run(&test);
    ck_row(&test, 0, 14, 1.3862943611198906);
    test.values.scale = 2; /* 1 and 9 parts */
    run(&test);
    ck_row(&test, 0, 15.2, 2.302585092994046);
    test.values.scale = 0;
    run(&test);
    ck_row(&test, 0, 12, 0.6931471805599453);
    test_call_free(&test);
}
END_TEST

/* Causal, bottom right, more queries than keys: the first rows see nothing. */
START_TEST(test_rows_without_keys)
{
    const double query[] = { 0, 0, 0, 0 }, key[] = { 1, 1 }, value[] = { 2, 4 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    start_small(&test, p, 4, 2, query, key, value);
    run(&test);
    ck_row(&test, 0, 0, -(double)INFINITY);
    ck_row(&test, 1, 0, -(double)INFINITY);
    ck_row(&test, 2, 2, 0);
    ck_row(&test, 3, 3, 0.6931471805599453);
    test_call_free(&test);
}
END_TEST

/* A sink of logit 0 beside two keys of logit 0 takes a third; alone it leaves lse -inf. */
START_TEST(test_sinks)
{
    const double query[] = { 0, 0, 0 }, key[] = { 1, 1 }, value[] = { 3, 3 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.features = CLATTN_WITH_SINKS;
    start_small(&test, p, 3, 2, query, key, value);
    test_call_set(&test, TENSOR_SINKS, 0, 0, 0, 0, 0);
    run(&test);
    ck_row(&test, 0, 0, 0); /* no key: the sink is all */
    ck_row(&test, 1, 1.5, 0.6931471805599453);
    ck_row(&test, 2, 2, 1.0986122886681098);
    test_call_free(&test);
}
END_TEST

/* softcap 2 tanh(s / 2), slope 0.5, query 0 at position 1: distances 1, 0, 1. */
START_TEST(test_softcap_and_slopes)
{
    const double query[] = { 1 }, key[] = { 4, 0, -4 }, value[] = { 1, 10, 100 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.softcap = 2;
    p.features = CLATTN_WITH_SLOPES;
    p.alignment = CLATTN_ALIGN_OFFSETS;
    start_small(&test, p, 1, 3, query, key, value);
    test_call_set(&test, TENSOR_SLOPES, 0, 0, 0, 0, 0.5);
    test_call_set(&test, TENSOR_QUERY_OFFSETS, 0, 0, 0, 0, 1);
    run(&test);
    double capped = 2 * tanh(2), a = exp(capped - 0.5), b = 1, c = exp(-capped - 0.5);
    ck_row(&test, 0, (a + 10 * b + 100 * c) / (a + b + c), log(a + b + c));
    test_call_free(&test);
}
END_TEST

/* One key ten rows away, logit -1, and a sink of nearly as much: neither number is one of float32. */
START_TEST(test_sinks_and_slopes_in_float64)
{
    const double zero[] = { 0 }, value[] = { 1 }, sink = -1 + 0x1p-30, slope = 0.1;
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.type = CLATTN_FLOAT64;
    p.slopes_type = p.sinks_type = CLATTN_FLOAT64;
    p.features = CLATTN_WITH_SINKS | CLATTN_WITH_SLOPES;
    p.alignment = CLATTN_ALIGN_OFFSETS;
    start_small(&test, p, 1, 1, zero, zero, value);
    test_call_set(&test, TENSOR_SINKS, 0, 0, 0, 0, sink);
    test_call_set(&test, TENSOR_SLOPES, 0, 0, 0, 0, slope);
    test_call_set(&test, TENSOR_QUERY_OFFSETS, 0, 0, 0, 0, 10);
    run(&test);
    ck_row(&test, 0, 1 / (1 + exp(sink + 1)), -1 + log(1 + exp(sink + 1)));
    test.problem.slopes_type = CLATTN_FLOAT16;
    ck_assert_int_eq(clattn_reference_forward(&test.problem, NULL, &test.tensors), CLATTN_INVALID_ARGUMENT);
    ck_assert_msg(strstr(clattn_last_error(), "slopes_type float16: must be float32"), "%s", clattn_last_error());
    test.problem.slopes_type = CLATTN_FLOAT64;
    test.problem.features = CLATTN_WITH_SINKS;
    ck_assert_int_eq(clattn_reference_forward(&test.problem, NULL, &test.tensors), CLATTN_INVALID_ARGUMENT);
    ck_assert_msg(strstr(clattn_last_error(), "slopes_type float64: needs CLATTN_WITH_SLOPES, and would be ignored"),
                  "%s", clattn_last_error());
    test.problem.slopes_type = CLATTN_TYPE_NONE;
    test.problem.features = 0;
    test.problem.sinks_type = CLATTN_FLOAT32;
    ck_assert_int_eq(clattn_reference_forward(&test.problem, NULL, &test.tensors), CLATTN_INVALID_ARGUMENT);
    ck_assert_msg(strstr(clattn_last_error(), "sinks_type float32: needs CLATTN_WITH_SINKS, and would be ignored"),
                  "%s", clattn_last_error());
    test.problem.features = CLATTN_WITH_SINKS | CLATTN_WITH_SLOPES;
    test.problem.sinks_type = CLATTN_FLOAT64;
    test.problem.type = CLATTN_FLOAT32;
    ck_assert_int_eq(clattn_reference_forward(&test.problem, NULL, &test.tensors), CLATTN_INVALID_ARGUMENT);
    ck_assert_msg(strstr(clattn_last_error(), "sinks_type float64: must be float32"), "%s", clattn_last_error());
    test_call_free(&test);
}
END_TEST

/* A slope beyond 2^95 counts as that, whatever its sign: query 0 at position 3, one key. */
START_TEST(test_slopes_beyond_their_range)
{
    const double one[] = { 0 }, value[] = { 7 };
    for (int sign = -1; sign <= 1; sign += 2) {
        clattn_problem p = CLATTN_PROBLEM_INIT;
        struct test_call test;
        p.features = CLATTN_WITH_SLOPES;
        p.alignment = CLATTN_ALIGN_OFFSETS;
        start_small(&test, p, 1, 1, one, one, value);
        test_call_set(&test, TENSOR_SLOPES, 0, 0, 0, 0, sign * 1e34);
        test_call_set(&test, TENSOR_QUERY_OFFSETS, 0, 0, 0, 0, 3);
        run(&test);
        ck_row(&test, 0, 7, -sign * 3 * 0x1p95);
        test_call_free(&test);
    }
}
END_TEST

/* Window (1, 0) keeps the diagonal and one key before it; the first key stays visible. */
START_TEST(test_window)
{
    const double zeros[] = { 0, 0, 0, 0, 0 }, value[] = { 1, 2, 4, 8, 16 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.window_left = 1;
    p.window_right = 0;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    start_small(&test, p, 5, 5, zeros, zeros, value);
    run(&test);
    ck_row(&test, 0, 1, 0);
    ck_row(&test, 4, 12, 0.6931471805599453);
    test.problem.always_visible_keys = 1;
    run(&test);
    ck_row(&test, 4, 25.0 / 3, 1.0986122886681098);
    test_call_free(&test);
}
END_TEST

static void ck_weights(struct test_call *test, clattn_weights mode, double first, double second)
{
    test->problem.weights = mode;
    run(test);
    ck_assert_double_eq_tol(test_call_get(test, TENSOR_WEIGHTS, 0, 0, 0, 0), first, 1e-15);
    if (isinf(second)) {
        ck_assert_double_eq(test_call_get(test, TENSOR_WEIGHTS, 0, 0, 0, 1), second);
    } else {
        ck_assert_double_eq_tol(test_call_get(test, TENSOR_WEIGHTS, 0, 0, 0, 1), second, 1e-15);
    }
}

/* The second key is masked: it has scores, but no logit and no weight. */
START_TEST(test_weights_modes)
{
    const double query[] = { 1 }, key[] = { 3, 5 }, value[] = { 1, 1 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.softcap = 4;
    p.features = CLATTN_WITH_MASK;
    p.weights = CLATTN_WEIGHTS_SCORES;
    start_small(&test, p, 1, 2, query, key, value);
    test_call_set(&test, TENSOR_MASK, 0, 0, 0, 0, 255);
    test_call_set(&test, TENSOR_MASK, 0, 0, 0, 1, 0);
    ck_weights(&test, CLATTN_WEIGHTS_SCORES, 3, 5);
    ck_weights(&test, CLATTN_WEIGHTS_SOFTCAP, 4 * tanh(0.75), 4 * tanh(1.25));
    ck_weights(&test, CLATTN_WEIGHTS_LOGITS, 4 * tanh(0.75), -(double)INFINITY);
    ck_weights(&test, CLATTN_WEIGHTS_SOFTMAX, 1, 0);
    test_call_free(&test);
}
END_TEST

/* NaN behind a mask, a -inf bias or a length stays there; NaN in a query reaches its row alone. */
START_TEST(test_nan_stays_where_it_is_seen)
{
    const double query[] = { 1, (double)NAN }, key[] = { 0, (double)NAN, 0, (double)NAN },
                 value[] = { 5, (double)INFINITY, (double)NAN, (double)NAN };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    p.features = CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS;
    p.bias_type = CLATTN_FLOAT32;
    start_small(&test, p, 2, 4, query, key, value);
    test_call_set(&test, TENSOR_KEY_LENGTHS, 0, 0, 0, 0, 3);
    for (int64_t at = 0; at < 8; ++at) {
        test_call_set(&test, TENSOR_MASK, 0, 0, at / 4, at % 4, at % 4 != 1);
        test_call_set(&test, TENSOR_BIAS, 0, 0, at / 4, at % 4, at % 4 == 2 ? -(double)INFINITY : 0);
    }
    run(&test);
    ck_row(&test, 0, 5, 0);
    ck_assert(isnan(test_call_get(&test, TENSOR_OUT, 0, 0, 1, 0)));
    ck_assert(isnan(test_call_get(&test, TENSOR_LSE, 0, 0, 1, 0)));
    test_call_set(&test, TENSOR_BIAS, 0, 0, 0, 0, (double)INFINITY); /* hides nothing: the softmax has no number */
    run(&test);
    ck_assert(isnan(test_call_get(&test, TENSOR_OUT, 0, 0, 0, 0)));
    test_call_free(&test);
}
END_TEST

/* Logits on which exp overflows or vanishes unless the maximum is taken off. */
START_TEST(test_extreme_logits)
{
    const double query[] = { 1, -1 }, key[] = { 1e4, 1e4, -1e4 }, value[] = { 2, 4, 9 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    start_small(&test, p, 2, 3, query, key, value);
    run(&test);
    ck_assert_double_eq(test_call_get(&test, TENSOR_OUT, 0, 0, 0, 0), 3);
    ck_assert_double_eq(test_call_get(&test, TENSOR_OUT, 0, 0, 1, 0), 9);
    ck_assert_double_eq_tol(test_call_get(&test, TENSOR_LSE, 0, 0, 0, 0), 1e4 + log(2), 1e-3);
    test_call_free(&test);
}
END_TEST

/* ---- random problems ------------------------------------------------------------------------ */

/* The reference and the four loops in double: bound of float64. Poison between elements stays. */
START_TEST(test_against_the_four_loops)
{
    const struct random_call_options options = { .type = CLATTN_FLOAT64, .work_limit = 60000 };
    double most = 0;
    for (uint64_t index = 0; index < 600; ++index) {
        struct test_call test;
        struct expected expected = { { 0 } };
        struct verdict verdict;
        enum value_family family;
        clattn_status status = random_call_create(&test, 20, index, &options, &family);
        ck_assert_msg(status == CLATTN_OK, "index %d: %s", (int)index, clattn_last_error());
        run(&test);
        ck_assert_int_eq(test_call_touched(&test), 0);
        const clattn_problem *p = &test.checked.p;
        size_t rows = (size_t)(p->batch * p->query_heads * test.call.query_len);
        ck_assert_int_eq(expected_create(&expected, &test), CLATTN_OK);
        naive_forward(&test, NAIVE_DOUBLE, expected.detail.out, expected.detail.lse);
        tolerance_check(&test, &expected, &verdict);
        ck_assert_msg(verdict.wrong == 0, "index %d of seed 20, %d rows: %s", (int)index, (int)rows, verdict.first);
        most = fmax(most, verdict.c_out);
        expected_free(&expected);
        test_call_free(&test);
    }
    ck_assert_double_gt(most, 0); /* two implementations, not one */
}
END_TEST

/* Attention over the first and over the other keys, merged, is attention over all. */
START_TEST(test_merge_of_two_parts)
{
    const double query[] = { 1.5, -2, 0 }, key[] = { 3, -1, 0.5, 2, -4 }, value[] = { 1, 2, 3, 4, 5 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    for (int64_t cut = 0; cut <= 5; ++cut) {
        struct test_call whole, head, tail;
        start_small(&whole, p, 3, 5, query, key, value);
        start_small(&head, p, 3, cut, query, key, value);
        start_small(&tail, p, 3, 5 - cut, query, key + cut, value + cut);
        run(&whole);
        run(&head);
        run(&tail);
        for (int64_t i = 0; i < 3; ++i) {
            double a = test_call_get(&head, TENSOR_OUT, 0, 0, i, 0), out, lse;
            double b = test_call_get(&tail, TENSOR_OUT, 0, 0, i, 0);
            merge_row(1, &a, test_call_get(&head, TENSOR_LSE, 0, 0, i, 0), &b,
                      test_call_get(&tail, TENSOR_LSE, 0, 0, i, 0), &out, &lse);
            ck_assert_double_eq_tol(out, test_call_get(&whole, TENSOR_OUT, 0, 0, i, 0), 2e-6);
            ck_assert_double_eq_tol(lse, test_call_get(&whole, TENSOR_LSE, 0, 0, i, 0), 2e-6);
        }
        test_call_free(&whole);
        test_call_free(&head);
        test_call_free(&tail);
    }
    double none, nothing = 0;
    merge_row(1, &nothing, -(double)INFINITY, &nothing, -(double)INFINITY, &nothing, &none);
    ck_assert_double_eq(nothing, 0);
    ck_assert_double_eq(none, -(double)INFINITY);
}
END_TEST

/* The share of dropped weights, and that kept ones grow so that the mean stays. */
START_TEST(test_dropout_keeps_its_share)
{
    double query[1] = { 0 }, key[4096] = { 0 }, value[4096];
    clattn_problem p = CLATTN_PROBLEM_INIT;
    struct test_call test;
    for (int j = 0; j < 4096; ++j) {
        value[j] = 1;
    }
    p.dropout = 0.25;
    start_small(&test, p, 1, 4096, query, key, value);
    test.values.dropout_seed = 99;
    run(&test);
    double kept = test_call_get(&test, TENSOR_OUT, 0, 0, 0, 0) * 0.75; /* share of 4096 */
    ck_assert_double_eq_tol(kept, 0.75, 4 * sqrt(0.25 * 0.75 / 4096));
    ck_assert_double_eq_tol(kept * 4096, rint(kept * 4096), 1e-9);
    double before = kept;
    test.values.dropout_offset = 1;
    run(&test);
    ck_assert_double_ne(test_call_get(&test, TENSOR_OUT, 0, 0, 0, 0) * 0.75, before);
    ck_row(&test, 0, test_call_get(&test, TENSOR_OUT, 0, 0, 0, 0), log(4096)); /* lse is not dropped */
    test_call_free(&test);
}
END_TEST

/* Results are rounded to nearest whatever the caller's mode is, which the caller has back. */
START_TEST(test_rounding_mode_of_the_caller)
{
    static const int modes[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    const struct random_call_options options = { .type = CLATTN_FLOAT16, .work_limit = 20000 };
    for (uint64_t n = 0; n < 12; ++n) {
        enum value_family family;
        struct test_call test;
        ck_assert_int_eq(random_call_create(&test, 5, n, &options, &family), CLATTN_OK);
        run(&test);
        const uint64_t nearest = test_call_output_hash(&test);
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); ++i) {
            test_call_reset_outputs(&test);
            fesetround(modes[i]);
            const clattn_status status = clattn_reference_forward(&test.problem, &test.values, &test.tensors);
            const int mode = fegetround();
            fesetround(FE_TONEAREST);
            ck_assert_int_eq(status, CLATTN_OK);
            ck_assert_int_eq(mode, modes[i]);
            ck_assert_uint_eq(test_call_output_hash(&test), nearest);
        }
        test_call_free(&test);
    }
}
END_TEST

SUITE("reference", test_two_keys, test_rows_without_keys, test_sinks, test_softcap_and_slopes,
      test_sinks_and_slopes_in_float64, test_slopes_beyond_their_range, test_window, test_weights_modes,
      test_nan_stays_where_it_is_seen, test_extreme_logits, test_against_the_four_loops, test_merge_of_two_parts,
      test_dropout_keeps_its_share, test_rounding_mode_of_the_caller)
