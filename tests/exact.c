/* usage: exact [--strategy S,S...] [--type T,T...] [--property WORDS] [--device D]
 *
 * Properties (those with WORDS in their names) that hold to the last bit, for each strategy and type; without --type,
 * by turns where a strategy compiles for each call. Environment: CLATTN_TEST_STRATEGIES stands in for --strategy. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/device_options.h"
#include "support/exact_call.h"
#include "support/exact_ends.h"
#include "support/exact_not_finite.h"
#include "support/exact_rounding.h"

/* ---- the properties ------------------------------------------------------------------------- */

/* A gap of 2048 between logits leaves one weight 1 and all others 0: out is a row of V. */
static int one_hot_returns_the_row(struct exact *e)
{
    clattn_problem p = exact_problem(e, 1, 2, 2, 37, 80, 81, 45);
    struct test_call test;
    exact_build(&test, &p, 0);
    struct random random = random_start(8, 0);
    test_call_fill(&test, TENSOR_QUERY, &random, value_zero, NULL);
    test_call_fill(&test, TENSOR_KEY, &random, value_zero, NULL);
    test.values.scale = 8;
    for (int64_t h = 0; h < 2; ++h) {
        for (int64_t j = 0; j < 80; ++j) {
            test_call_set(&test, TENSOR_KEY, 0, h, j, j, 16);
        }
        for (int64_t i = 0; i < 37; ++i) {
            test_call_set(&test, TENSOR_QUERY, 0, h, i, (i * 29 + h) % 80, 16);
        }
    }
    int status = exact_run(e, &test);
    struct exact_row row = { &test, 0, 0, 0 };
    for (row.h = 0; row.h < 2; ++row.h) {
        for (row.i = 0; row.i < 37; ++row.i) {
            for (int64_t c = 0; c < 45 && status == 0; ++c) {
                int64_t chosen = (row.i * 29 + row.h) % 80;
                status = exact_same_value(e, &row, c, test_call_get(&test, TENSOR_VALUE, 0, row.h, chosen, c));
            }
        }
    }
    test_call_free(&test);
    return status;
}

static double value_huge(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)index, (void)context;
    return 32768;
}

/* A value of its own in each row and head, so that scaled logits are rounded in all ways. */
static double value_huge_of_row(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)context;
    return 32768 - 256 * (double)(3 * index[2] + index[1]);
}

/* Equal logits over 2^k keys: the mean of integers, which float32 holds exactly. */
static int mean_of_equal_logits(struct exact *e, test_value *query, test_value *key)
{
    const int64_t most = 8, keys = 128;
    const double shift = 0;
    const clattn_problem p = exact_problem(e, 1, 3, 1, 21, keys, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    struct test_call test;
    exact_build(&test, &p, 0);
    struct random random = random_start(9, 0);
    test_call_fill(&test, TENSOR_QUERY, &random, query, &shift);
    test_call_fill(&test, TENSOR_KEY, &random, key, &shift);
    test_call_fill(&test, TENSOR_VALUE, &random, value_integer, &most);
    int status = exact_run(e, &test);
    for (int64_t c = 0; c < EXACT_HEAD_DIM_V && status == 0; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
            sum += test_call_get(&test, TENSOR_VALUE, 0, 0, j, c);
        }
        struct exact_row row = { &test, 0, 0, 0 };
        for (int64_t n = 0; n < 3 * 21 && status == 0; ++n) {
            row.h = n / 21;
            row.i = n % 21;
            status = exact_same_value(e, &row, c, exact_rounded(e, sum / (double)keys));
        }
    }
    test_call_free(&test);
    return status;
}

static int equal_logits_give_the_mean(struct exact *e)
{
    return mean_of_equal_logits(e, value_zero, value_normal);
}

/* Logits of up to 5e9, which float32 holds in steps of 512. */
static int huge_equal_logits_give_the_mean(struct exact *e)
{
    return mean_of_equal_logits(e, value_huge_of_row, value_huge);
}

static int integers_give_exact_scores(struct exact *e)
{
    const int64_t most = 8;
    clattn_problem p = exact_problem(e, 1, 2, 1, 33, 70, 67, 5);
    struct test_call test;
    p.weights = CLATTN_WEIGHTS_SCORES;
    exact_build(&test, &p, 0);
    struct random random = random_start(10, 0);
    test_call_fill(&test, TENSOR_QUERY, &random, value_integer, &most);
    test_call_fill(&test, TENSOR_KEY, &random, value_integer, &most);
    test.values.scale = -0.5;
    int status = exact_run(e, &test);
    for (int64_t n = 0; n < 2 * 33 * 70 && status == 0; ++n) {
        int64_t h = n / (33 * 70), i = n / 70 % 33, j = n % 70;
        double dot = 0;
        for (int64_t d = 0; d < 67; ++d) {
            dot += test_call_get(&test, TENSOR_QUERY, 0, h, i, d) * test_call_get(&test, TENSOR_KEY, 0, 0, j, d);
        }
        double got = test_call_get(&test, TENSOR_WEIGHTS, 0, h, i, j);
        if (fabs(got - -0.5 * dot) > 0 || isnan(got)) {
            snprintf(e->what, sizeof(e->what), "score[0, %d, %d, %d] is %.9g, not %.9g", (int)h, (int)i, (int)j, got,
                     -0.5 * dot);
            status = -1;
        }
    }
    test_call_free(&test);
    return status;
}

/* A logit of 0 and, 190 keys later, a higher one, by another amount in each row; their values are as large as the
 * header allows ("Range"), so that sums have room for weights of little more than 1. The other keys weigh next to
 * nothing. */
static int large_values_pass_rising_maxima(struct exact *e)
{
    const int64_t rows = 21, keys = 200, last = 190;
    const double value = 0x1p125;
    clattn_problem p = exact_problem(e, 1, 1, 1, rows, keys, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.type = e->type == CLATTN_FLOAT16 ? CLATTN_BFLOAT16 : e->type; /* float16 has no such values */
    struct test_call test;
    exact_build(&test, &p, 0);
    struct random random = random_start(12, 0);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        test_call_fill(&test, (enum tensor_id)id, &random, value_zero, NULL);
    }
    test.values.scale = 1;
    for (int64_t i = 0; i < rows; ++i) {
        test_call_set(&test, TENSOR_QUERY, 0, 0, i, 0, 0.5 * (double)(i + 1));
    }
    for (int64_t j = 0; j < keys; ++j) {
        test_call_set(&test, TENSOR_KEY, 0, 0, j, 0, j == 0 ? 0 : j == last ? 1 : -100);
    }
    for (int64_t c = 0; c < EXACT_HEAD_DIM_V; ++c) {
        test_call_set(&test, TENSOR_VALUE, 0, 0, 0, c, value);
        test_call_set(&test, TENSOR_VALUE, 0, 0, last, c, value);
    }
    int status = exact_run(e, &test);
    for (int64_t n = 0; n < rows * EXACT_HEAD_DIM_V && status == 0; ++n) {
        const int64_t i = n / EXACT_HEAD_DIM_V, c = n % EXACT_HEAD_DIM_V;
        const double got = test_call_get(&test, TENSOR_OUT, 0, 0, i, c);
        if (!(fabs(got / value - 1) <= 0x1p-8)) {
            snprintf(e->what, sizeof(e->what), "out[0, 0, %d, %d] is %g, not %g", (int)i, (int)c, got, value);
            status = -1;
        }
    }
    test_call_free(&test);
    return status;
}

/* Values around 4: no result is subnormal. */
static int power_of_two_passes_through(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 2, 1, 40, 75, 19, 37);
    struct test_call one, eight;
    exact_build(&one, &p, 4);
    exact_build(&eight, &p, 4);
    struct random random = random_start(11, 0);
    const double shift = 4;
    test_call_fill(&one, TENSOR_VALUE, &random, value_normal, &shift);
    int64_t n[4];
    test_call_shape(&one, TENSOR_VALUE, n);
    for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
        int64_t b = at / (n[1] * n[2] * n[3]), h = at / (n[2] * n[3]) % n[1], i = at / n[3] % n[2];
        test_call_set(&eight, TENSOR_VALUE, b, h, i, at % n[3],
                      8 * test_call_get(&one, TENSOR_VALUE, b, h, i, at % n[3]));
    }
    int status = exact_run(e, &one) || exact_run(e, &eight) ? -1 : 0;
    test_call_shape(&one, TENSOR_OUT, n);
    struct exact_row row = { &eight, 0, 0, 0 };
    for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3] && status == 0; ++at) {
        row.b = at / (n[1] * n[2] * n[3]);
        row.h = at / (n[2] * n[3]) % n[1];
        row.i = at / n[3] % n[2];
        status =
            exact_same_value(e, &row, at % n[3], 8 * test_call_get(&one, TENSOR_OUT, row.b, row.h, row.i, at % n[3]));
    }
    test_call_free(&one);
    test_call_free(&eight);
    return status;
}

/* Rows that begin at multiples of 32 elements, as in caches that are aligned, with NaN between them. */
static int gaps_between_rows_are_not_read(struct exact *e)
{
    const struct test_layout apart = { { 0, 1, 2, 3 }, { 0 }, { 0 }, { 0 }, 0, 32 };
    const clattn_problem p = exact_problem(e, 2, 2, 1, 40, 150, 19, 37);
    struct test_call dense, gaps;
    exact_build(&dense, &p, 0);
    test_call_start(&gaps, &p);
    gaps.values = dense.values;
    for (int id = TENSOR_QUERY; id <= TENSOR_OUT; ++id) {
        test_call_place(&gaps, (enum tensor_id)id, &apart);
        for (int64_t b = 0; b < p.batch && id != TENSOR_OUT; ++b) {
            exact_copy_entry(&gaps, b, &dense, b, (enum tensor_id)id);
        }
    }
    int status = exact_run(e, &dense) || exact_run(e, &gaps) ? -1 : 0;
    for (int64_t b = 0; b < p.batch && status == 0; ++b) {
        status = exact_same_entry(e, &gaps, b, &dense, b);
    }
    test_call_free(&dense);
    test_call_free(&gaps);
    return status;
}

/* What else is in the batch, and where, changes nothing. */
static int batch_entries_stand_alone(struct exact *e)
{
    clattn_problem p = exact_problem(e, 3, 4, 4, 45, 130, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    struct test_call all, turned, alone;
    exact_build(&all, &p, 0);
    exact_build(&turned, &p, 0);
    int status = exact_run(e, &all);
    for (int64_t b = 0; b < 3; ++b) {
        p.batch = 1;
        exact_build(&alone, &p, 0);
        for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
            exact_copy_entry(&alone, 0, &all, b, (enum tensor_id)id);
            exact_copy_entry(&turned, 2 - b, &all, b, (enum tensor_id)id);
        }
        status = status || exact_run(e, &alone) || exact_same_entry(e, &alone, 0, &all, b) ? -1 : 0;
        test_call_free(&alone);
    }
    status = status || exact_run(e, &turned) ? -1 : 0;
    for (int64_t b = 0; b < 3 && status == 0; ++b) {
        status = exact_same_entry(e, &turned, 2 - b, &all, b);
    }
    test_call_free(&all);
    test_call_free(&turned);
    return status;
}

static int grouped_heads_are_repeated_heads(struct exact *e)
{
    clattn_problem p = exact_problem(e, 2, 6, 2, 35, 90, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    struct test_call grouped, repeated;
    exact_build(&grouped, &p, 0);
    p.kv_heads = 6;
    exact_build(&repeated, &p, 0);
    int64_t n[4];
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        test_call_shape(&repeated, (enum tensor_id)id, n);
        for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
            int64_t b = at / (n[1] * n[2] * n[3]), h = at / (n[2] * n[3]) % n[1], i = at / n[3] % n[2];
            test_call_set(&repeated, (enum tensor_id)id, b, h, i, at % n[3],
                          test_call_get(&grouped, (enum tensor_id)id, b, id == TENSOR_QUERY ? h : h / 3, i, at % n[3]));
        }
    }
    int status = exact_run(e, &grouped) || exact_run(e, &repeated) || exact_same_entry(e, &grouped, 0, &repeated, 0) ||
                 exact_same_entry(e, &grouped, 1, &repeated, 1);
    test_call_free(&grouped);
    test_call_free(&repeated);
    return status ? -1 : 0;
}

static double below_diagonal(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    return index[3] <= index[2] + *(const int64_t *)context ? 1 : 0;
}

/* The offset is negative: the first rows see nothing. */
static int causal_is_a_mask(struct exact *e)
{
    const int64_t offset = -5;
    struct random random = random_start(12, 0);
    clattn_problem p = exact_problem(e, 1, 2, 2, 75, 70, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    struct test_call causal, masked;
    p.features = CLATTN_WITH_MASK;
    exact_build(&masked, &p, 0);
    test_call_fill(&masked, TENSOR_MASK, &random, below_diagonal, &offset);
    p.features = 0;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    exact_build(&causal, &p, 0);
    int status = exact_run(e, &causal) || exact_run(e, &masked) || exact_same_entry(e, &causal, 0, &masked, 0);
    test_call_free(&causal);
    test_call_free(&masked);
    return status ? -1 : 0;
}

/* Keys past the length hold NaN, and a length makes them as good as absent. */
static int keys_past_the_length_are_absent(struct exact *e)
{
    clattn_problem p = exact_problem(e, 1, 2, 2, 31, 66, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V);
    struct test_call plain, longer;
    exact_build(&plain, &p, 0);
    p.key_len = 117;
    p.features = CLATTN_WITH_KEY_LENGTHS;
    test_call_start(&longer, &p);
    test_call_place_all(&longer); /* poison, wherever nothing is set */
    longer.values = plain.values;
    test_call_set(&longer, TENSOR_KEY_LENGTHS, 0, 0, 0, 0, 66);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        exact_copy_entry(&longer, 0, &plain, 0, (enum tensor_id)id);
    }
    int status = exact_run(e, &plain) || exact_run(e, &longer) || exact_same_entry(e, &longer, 0, &plain, 0);
    test_call_free(&plain);
    test_call_free(&longer);
    return status ? -1 : 0;
}

/* ---- the whole run -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*holds)(struct exact *e);
} properties[] = {
    { "one-hot softmax returns the row of V", one_hot_returns_the_row },
    { "equal logits give the exact mean", equal_logits_give_the_mean },
    { "huge equal logits give the exact mean", huge_equal_logits_give_the_mean },
    { "large values pass where maxima rise", large_values_pass_rising_maxima },
    { "ties round to even", ties_round_to_even },
    { "integers give exact scores", integers_give_exact_scores },
    { "V * 8 gives out * 8", power_of_two_passes_through },
    { "gaps between rows are not read", gaps_between_rows_are_not_read },
    { "batch entries stand alone, in any order", batch_entries_stand_alone },
    { "grouped heads are repeated heads", grouped_heads_are_repeated_heads },
    { "causal is the same as its mask", causal_is_a_mask },
    { "keys past the length are absent", keys_past_the_length_are_absent },
    { "float32 out of many rows rounds to the out of the type", wide_out_of_many_rows_rounds },
    { "float32 out of few rows rounds to the out of the type", wide_out_of_few_rows_rounds },
    { "rows whose weights are all dropped are 0", dropped_rows_are_zero },
    { "small weights count beside a large sink", keys_beside_large_sinks_count },
    { "small weights count where dropout takes the large one", dropped_weights_leave_others_exact },
    { "a dropped value counts 0 times: NaN", dropped_values_count_0_times },
    { "infinite values stay infinite where all rows see them", infinite_values_stay },
    { "infinite values stay infinite where some rows see them", infinite_values_stay_where_seen },
    { "logits of -infinity count nothing beside others", infinite_logits_count_nothing },
    { "logits of -infinity count nothing beside a sink", infinite_logits_count_nothing_beside_sinks },
    { "an infinite query spoils its row alone", infinite_query_spoils_its_row_alone },
    { "numbers of no key in a list are hidden", listed_numbers_of_no_key_are_hidden },
    { "low biases hide nothing", low_biases_hide_nothing },
    { "huge biases choose their key", huge_biases_choose_their_key },
    { "sinks at the ends of their range take all or nothing", sinks_at_their_ends_take_all_or_nothing },
    { "huge slopes choose by distance", huge_slopes_choose_by_distance },
    { "softcaps at the ends of their range cap nothing or all", softcaps_at_their_ends_cap_nothing_or_all },
    { "a huge scale of no score is nothing", huge_scales_of_no_score_are_nothing },
};

/* In each type, or by turns in the first that the strategy takes. */
static void run_properties(struct exact *e, const struct device_options *o, const char *strategy, const char *words)
{
    const int by_turns = !o->types_named && exact_by_turns(strategy);
    int tested[OPTIONS_TYPES_MAX] = { 0 }, t = -1;
    for (size_t n = 0; n < sizeof(properties) / sizeof(properties[0]); ++n) {
        int over = strstr(properties[n].name, words) == NULL;
        for (int turn = 0; turn < o->n_types && !over; ++turn) {
            const int before = exact_count(e);
            t = (t + 1) % o->n_types;
            exact_begin(e, strategy, o->types[t]);
            exact_end(e, properties[n].holds(e) == 0, properties[n].name, clattn_type_name(e->type));
            tested[t] += exact_count(e) - before;
            over = by_turns && !e->declined;
        }
    }
    for (t = 0; t < o->n_types && !*words; ++t) {
        exact_tested(e, strategy, o->types[t], tested[t]);
    }
}

int main(int argc, char **argv)
{
    struct device_options options;
    const char *words = "";
    const struct device_option more[] = { { "property", &words }, { NULL, NULL } };
    if (device_options_parse_more(argc, argv, "all", NULL, more, &options) != 0) {
        return device_options_usage("exact");
    }
    struct exact e = { .context = device_options_open(&options) };
    if (!e.context) {
        return 1;
    }
    for (int s = 0; s < options.n_strategies; ++s) {
        run_properties(&e, &options, options.strategies[s], words);
    }
    return exact_close(&e);
}
