/* usage: ends [--strategy S]
 *
 * Gradients where a number of the call is at the end of its range: biases, sinks and softcaps that leave weights of
 * exactly 1 and 0, or all alike, whose gradients are known. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "kinds.h"

#define ROWS 24
#define KEYS 40
#define HEADS 2

/* What a matrix unit makes of a weight in two parts of bfloat16; else of float32, some operations. */
static double share(void)
{
    return kind_in_bfloat16() ? 0x1p-15 : 1e-6;
}

static struct kind kind_with(uint32_t features)
{
    return (struct kind){ "ends", 1, HEADS, 1, ROWS, KEYS, 20, 12, 0, features };
}

/* The key that a row's `high` bias is on. */
static int64_t chosen_key(int64_t h, int64_t i)
{
    return (7 * i + 3 * h) % (KEYS - 4);
}

/* dvalue is the sum over rows of their weight of the key, 1 / n or 1 or 0, times dout. */
static int dvalue_is(const struct gradient_call *g, int chooses)
{
    int good = 1;
    for (int64_t j = 0; j < KEYS; ++j) {
        for (int64_t c = 0; c < 12; ++c) {
            double want = 0, magnitude = 0;
            for (int64_t row = 0; row < HEADS * ROWS; ++row) {
                const int64_t h = row / ROWS, i = row % ROWS;
                const double weight = !chooses ? 1.0 / KEYS : chosen_key(h, i) == j;
                const double term = weight * gradient_call_get(g, GRADIENT_DOUT, 0, h, i, c);
                want += term;
                magnitude += fabs(term);
            }
            good &= fabs(gradient_call_get(g, GRADIENT_DVALUE, 0, 0, j, c) - want) <= share() * magnitude;
        }
    }
    return good;
}

/* To a rounding of what is subtracted. */
static int is_zero(const struct test_array *a, double size)
{
    int good = 1;
    for (int64_t at = 0; at < a->count; ++at) {
        good &= fabs(kind_get(a, at)) <= size;
    }
    return good;
}

/* One program for all: a call has a bias of 0, sinks of -inf and a softcap that is as good as none, where not said. */
static void begin(const char *strategy, double softcap, struct gradient_call *g)
{
    const struct kind kind = kind_with(CLATTN_WITH_SINKS);
    clattn_problem p = kind_problem(&kind);
    p.bias_type = CLATTN_FLOAT32;
    p.softcap = softcap;
    kind_begin(g, &p, strategy, kind_normal);
    kind_scale(&g->test.arrays[TENSOR_BIAS], 0);
    for (int h = 0; h < HEADS; ++h) {
        kind_set(&g->test.arrays[TENSOR_SINKS], h, -(double)INFINITY);
    }
}

static int finish(struct gradient_call *g)
{
    return kind_finish(g, kind_normal) && gradient_call_run(kind_context, g, 0) == CLATTN_OK;
}

/* All keys of a row have `low`, but one `high`. Where they are alike, weights are 1 / n, as the forward's are: beside
 * such a bias no type holds a score. */
static void check_bias(const char *strategy, double low, double high)
{
    struct gradient_call g;
    char what[80];
    begin(strategy, (double)FLT_MAX, &g);
    for (int64_t n = 0; n < HEADS * ROWS * KEYS; ++n) {
        const int64_t h = n / KEYS / ROWS, i = n / KEYS % ROWS, j = n % KEYS;
        test_call_set(&g.test, TENSOR_BIAS, 0, h, i, j, j == chosen_key(h, i) ? high : low);
    }
    const int good = finish(&g);
    snprintf(what, sizeof(what), "biases of %g, one of %g: dvalue", low, high);
    kind_report(strategy, what, good && dvalue_is(&g, low != high));
    if (low != high) {
        snprintf(what, sizeof(what), "biases of %g, one of %g: dquery and dkey are 0", low, high);
        kind_report(strategy, what,
                    good && is_zero(&g.arrays[GRADIENT_DQUERY], 1e3 * share()) &&
                        is_zero(&g.arrays[GRADIENT_DKEY], 1e3 * share()));
    }
    gradient_call_free(&g);
}

/* It takes all, so that nothing is left for keys. */
static void check_huge_sink(const char *strategy)
{
    struct gradient_call g;
    begin(strategy, (double)FLT_MAX, &g);
    for (int h = 0; h < HEADS; ++h) {
        kind_set(&g.test.arrays[TENSOR_SINKS], h, (double)FLT_MAX);
    }
    int good = finish(&g);
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE && good; ++id) {
        good = is_zero(&g.arrays[id], 0);
    }
    kind_report(strategy, "a sink of FLT_MAX leaves nothing to keys", good);
    gradient_call_free(&g);
}

/* As good as none, or all logits 0. */
static void check_softcap(const char *strategy, double cap)
{
    struct gradient_call g;
    struct gradient_verdict verdict;
    begin(strategy, cap, &g);
    const int good = finish(&g);
    kind_report(strategy, cap < 1 ? "a softcap of FLT_MIN" : "a softcap of FLT_MAX", good && kind_check(&g, &verdict));
    if (cap < 1) {
        kind_report(strategy, "a softcap of FLT_MIN: dvalue", good && dvalue_is(&g, 0));
    }
    gradient_call_free(&g);
}

static void check_strategy(const char *strategy)
{
    const double most = (double)FLT_MAX;
    check_bias(strategy, -most, -most);
    check_bias(strategy, most, most);
    check_bias(strategy, -most, 0);
    check_bias(strategy, 0, most);
    check_bias(strategy, -most, most);
    check_bias(strategy, 0.75 * -most, -2e38);
    check_huge_sink(strategy);
    check_softcap(strategy, most);
    check_softcap(strategy, (double)FLT_MIN);
}

int main(int argc, char **argv)
{
    return kind_main(argc, argv, 1, check_strategy);
}
