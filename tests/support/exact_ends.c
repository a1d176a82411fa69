#include "exact_ends.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#define ROWS 3 /* few, so that those for decoding take them too */
#define KEYS 64
#define HEADS 2

/* Biases as low as masks of models have them, by type. */
static double lowest(clattn_type type)
{
    return type == CLATTN_FLOAT16 ? -65504.0 : type == CLATTN_BFLOAT16 ? -(double)0x1.fep127f : -(double)FLT_MAX;
}

static double constant(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)index;
    return *(const double *)context;
}

/* Values are integers whose mean over all keys any float type has exactly; queries are `query`, keys normal. */
static void build(struct exact *e, struct test_call *test, const clattn_problem *p, double query)
{
    const int64_t most = 8;
    struct random random = random_start(21, 0);
    (void)e;
    exact_build(test, p, 0);
    test_call_fill(test, TENSOR_QUERY, &random, constant, &query);
    test_call_fill(test, TENSOR_VALUE, &random, value_integer, &most);
}

static double mean_of_values(const struct exact *e, const struct test_call *test, int64_t h, int64_t c)
{
    double sum = 0;
    for (int64_t j = 0; j < KEYS; ++j) {
        sum += test_call_get(test, TENSOR_VALUE, 0, h, j, c);
    }
    return exact_rounded(e, sum / KEYS);
}

/* To a few units of the parts in which matrix units take weights, of values up to 8. */
static int value_is(struct exact *e, const struct exact_row *row, int64_t column, double want)
{
    const double got = test_call_get(row->test, TENSOR_OUT, row->b, row->h, row->i, column);
    return fabs(got - want) <= 0x1p-17 ? 0 : exact_same_value(e, row, column, want);
}

/* lse to a few roundings. */
static int lse_is(struct exact *e, const struct exact_row *row, double want)
{
    const double got = test_call_get(row->test, TENSOR_LSE, row->b, row->h, row->i, 0);
    if (fabs(got - want) <= 1e-6 * (fabs(want) + 1)) {
        return 0;
    }
    snprintf(e->what, sizeof(e->what), "lse[%d, %d, %d] is %.9g, not %.9g", (int)row->b, (int)row->h, (int)row->i, got,
             want);
    return -1;
}

static int row_is_mean(struct exact *e, const struct exact_row *row, double lse)
{
    int status = lse_is(e, row, lse);
    for (int64_t c = 0; c < EXACT_HEAD_DIM_V && status == 0; ++c) {
        status = value_is(e, row, c, mean_of_values(e, row->test, row->h, c));
    }
    return status;
}

static int row_is_value(struct exact *e, const struct exact_row *row, int64_t key)
{
    int status = 0;
    for (int64_t c = 0; c < EXACT_HEAD_DIM_V && status == 0; ++c) {
        status = value_is(e, row, c, test_call_get(row->test, TENSOR_VALUE, row->b, row->h, key, c));
    }
    return status;
}

static clattn_problem problem_with(const struct exact *e, uint32_t features)
{
    clattn_problem p = exact_problem(e, 1, HEADS, HEADS, ROWS, KEYS, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.features = features | CLATTN_WITH_LSE;
    return p;
}

#define FOR_ROWS(row, status)                                                                                          \
    for (row.h = 0; row.h < HEADS; ++row.h)                                                                            \
        for (row.i = 0; row.i < ROWS && (status) == 0; ++row.i)

static const clattn_type bias_types[] = { CLATTN_FLOAT32, CLATTN_BFLOAT16, CLATTN_FLOAT16 };

/* In every other row all keys have the same low bias. */
static int low_biases_give_the_mean(struct exact *e)
{
    int status = 0;
    for (size_t t = 0; t < sizeof(bias_types) / sizeof(bias_types[0]) && status == 0; ++t) {
        const double parts[] = { 1, 0.75, 0.5, -1, -0.75 };
        for (size_t n = 0; n < sizeof(parts) / sizeof(parts[0]) && status == 0; ++n) {
            clattn_problem p = problem_with(e, 0);
            struct test_call test;
            p.bias_type = bias_types[t];
            build(e, &test, &p, 0);
            struct exact_row row = { &test, 0, 0, 0 };
            FOR_ROWS(row, 0)
            {
                for (int64_t j = 0; j < KEYS; ++j) {
                    test_call_set(&test, TENSOR_BIAS, 0, row.h, row.i, j,
                                  row.i % 2 ? parts[n] * lowest(p.bias_type) : 0);
                }
            }
            status = exact_run(e, &test);
            FOR_ROWS(row, status)
            {
                const double bias = test_call_get(&test, TENSOR_BIAS, 0, row.h, row.i, 0);
                status = row_is_mean(e, &row, bias + log(KEYS));
            }
            test_call_free(&test);
        }
    }
    return status;
}

/* One key of a row has `high`, the others `low`. */
static int higher_bias_chooses(struct exact *e, double low, double high)
{
    clattn_problem p = problem_with(e, 0);
    struct test_call test;
    p.bias_type = CLATTN_FLOAT32;
    build(e, &test, &p, 1);
    struct exact_row row = { &test, 0, 0, 0 };
    FOR_ROWS(row, 0)
    {
        for (int64_t j = 0; j < KEYS; ++j) {
            test_call_set(&test, TENSOR_BIAS, 0, row.h, row.i, j, j == row.i * 3 % KEYS ? high : low);
        }
    }
    int status = exact_run(e, &test);
    FOR_ROWS(row, status)
    {
        status = row_is_value(e, &row, row.i * 3 % KEYS) || (fabs(high) > 1e6 && lse_is(e, &row, high)) ? -1 : 0;
    }
    test_call_free(&test);
    return status;
}

static int biases_choose_their_key(struct exact *e)
{
    return higher_bias_chooses(e, 0, (double)FLT_MAX) || higher_bias_chooses(e, -(double)FLT_MAX, (double)FLT_MAX) ||
                   higher_bias_chooses(e, -(double)FLT_MAX, 0)
               ? -1
               : 0;
}

static int huge_biases_are_told_apart(struct exact *e)
{
    return higher_bias_chooses(e, -(double)FLT_MAX, -2.5e38) || higher_bias_chooses(e, 2.5e38, (double)FLT_MAX) ? -1
                                                                                                                : 0;
}

/* All keys of a row but the last eight have a low bias: as if these were the only keys. */
static int low_biases_leave_other_keys_alone(struct exact *e)
{
    clattn_problem p = problem_with(e, 0);
    struct test_call low, hidden;
    p.bias_type = CLATTN_FLOAT32;
    build(e, &low, &p, 0.5);
    build(e, &hidden, &p, 0.5);
    struct exact_row row = { &low, 0, 0, 0 };
    FOR_ROWS(row, 0)
    {
        for (int64_t j = 0; j < KEYS; ++j) {
            test_call_set(&low, TENSOR_BIAS, 0, row.h, row.i, j, j < KEYS - 8 ? -(double)FLT_MAX : 0);
            test_call_set(&hidden, TENSOR_BIAS, 0, row.h, row.i, j, j < KEYS - 8 ? -(double)INFINITY : 0);
        }
    }
    int status = exact_run(e, &low) || exact_run(e, &hidden) || exact_same_entry(e, &low, 0, &hidden, 0) ? -1 : 0;
    test_call_free(&low);
    test_call_free(&hidden);
    return status;
}

/* Head 0 has `sink`, head 1 one of 0. */
static void set_sinks(struct test_call *test, double sink)
{
    test_call_set(test, TENSOR_SINKS, 0, 0, 0, 0, sink);
    test_call_set(test, TENSOR_SINKS, 0, 1, 0, 0, 0);
}

static int huge_sinks_take_all(struct exact *e)
{
    const clattn_problem p = problem_with(e, CLATTN_WITH_SINKS);
    struct test_call test;
    build(e, &test, &p, 0);
    set_sinks(&test, (double)FLT_MAX);
    int status = exact_run(e, &test);
    struct exact_row row = { &test, 0, 0, 0 };
    FOR_ROWS(row, status)
    {
        status = lse_is(e, &row, row.h == 0 ? (double)FLT_MAX : log(KEYS + 1));
        for (int64_t c = 0; c < EXACT_HEAD_DIM_V && status == 0 && row.h == 0; ++c) {
            status = value_is(e, &row, c, 0);
        }
    }
    test_call_free(&test);
    return status;
}

static int low_sinks_take_nothing(struct exact *e)
{
    const clattn_problem p = problem_with(e, CLATTN_WITH_SINKS);
    struct test_call test;
    build(e, &test, &p, 0);
    set_sinks(&test, -(double)FLT_MAX);
    int status = exact_run(e, &test);
    struct exact_row row = { &test, 0, 0, 0 };
    for (row.i = 0; row.i < ROWS && status == 0; ++row.i) {
        status = row_is_mean(e, &row, log(KEYS));
    }
    test_call_free(&test);
    return status;
}

/* A row that sees keys 0 to 8 + its number takes the nearest by a positive slope, the farthest by a negative one. */
int huge_slopes_choose_by_distance(struct exact *e)
{
    const double slopes[] = { (double)FLT_MAX, 1e38, 1e30 };
    int status = 0;
    for (size_t n = 0; n < sizeof(slopes) / sizeof(slopes[0]) && status == 0; ++n) {
        clattn_problem p = problem_with(e, CLATTN_WITH_SLOPES);
        struct test_call test;
        p.causal = 1;
        p.alignment = CLATTN_ALIGN_OFFSETS;
        build(e, &test, &p, 0.5);
        test_call_set(&test, TENSOR_QUERY_OFFSETS, 0, 0, 0, 0, 8);
        test_call_set(&test, TENSOR_SLOPES, 0, 0, 0, 0, slopes[n]);
        test_call_set(&test, TENSOR_SLOPES, 0, 1, 0, 0, -slopes[n]);
        status = exact_run(e, &test);
        struct exact_row row = { &test, 0, 0, 0 };
        FOR_ROWS(row, status)
        {
            status = row_is_value(e, &row, row.h == 0 ? row.i + 8 : 0);
        }
        test_call_free(&test);
    }
    return status;
}

/* As good as none. */
static int huge_caps_cap_nothing(struct exact *e)
{
    const double caps[] = { (double)FLT_MAX, 1e30, 1e10 };
    int status = 0;
    for (size_t n = 0; n < sizeof(caps) / sizeof(caps[0]) && status == 0; ++n) {
        clattn_problem p = problem_with(e, 0);
        struct test_call capped, free_of_it;
        exact_build(&free_of_it, &p, 0);
        p.softcap = caps[n];
        exact_build(&capped, &p, 0);
        status = exact_run(e, &capped) || exact_within_bound(e, &capped, &free_of_it) ? -1 : 0;
        test_call_free(&capped);
        test_call_free(&free_of_it);
    }
    return status;
}

static int tiny_caps_make_logits_equal(struct exact *e)
{
    const double caps[] = { (double)FLT_MIN, 1e-44, 1e-30 };
    int status = 0;
    for (size_t n = 0; n < sizeof(caps) / sizeof(caps[0]) && status == 0; ++n) {
        clattn_problem p = problem_with(e, 0);
        struct test_call test;
        p.softcap = caps[n];
        build(e, &test, &p, n == 0 ? 0 : 2);
        status = exact_run(e, &test);
        struct exact_row row = { &test, 0, 0, 0 };
        FOR_ROWS(row, status)
        {
            status = row_is_mean(e, &row, log(KEYS));
        }
        test_call_free(&test);
    }
    return status;
}

int huge_scales_of_no_score_are_nothing(struct exact *e)
{
    const double scales[] = { (double)FLT_MAX, -(double)FLT_MAX };
    int status = 0;
    for (size_t n = 0; n < sizeof(scales) / sizeof(scales[0]) && status == 0; ++n) {
        const clattn_problem p = problem_with(e, 0);
        struct test_call test;
        build(e, &test, &p, 0);
        test.values.scale = scales[n];
        status = exact_run(e, &test);
        struct exact_row row = { &test, 0, 0, 0 };
        FOR_ROWS(row, status)
        {
            status = row_is_mean(e, &row, log(KEYS));
        }
        test_call_free(&test);
    }
    return status;
}

int low_biases_hide_nothing(struct exact *e)
{
    return low_biases_give_the_mean(e) || low_biases_leave_other_keys_alone(e) ? -1 : 0;
}

int huge_biases_choose_their_key(struct exact *e)
{
    return biases_choose_their_key(e) || huge_biases_are_told_apart(e) ? -1 : 0;
}

int sinks_at_their_ends_take_all_or_nothing(struct exact *e)
{
    return huge_sinks_take_all(e) || low_sinks_take_nothing(e) ? -1 : 0;
}

int softcaps_at_their_ends_cap_nothing_or_all(struct exact *e)
{
    return huge_caps_cap_nothing(e) || tiny_caps_make_logits_equal(e) ? -1 : 0;
}
