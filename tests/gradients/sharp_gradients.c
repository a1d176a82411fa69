/* usage: sharp_gradients [--strategy S]
 *
 * Gradients where lse is so large that its rounding to float32 is more than all others: logits of 100 to 200 (as exact
 * as the formula in float32 by a row maximum and a sum), weights of exactly 1 and 0, rows whose keys all have a bias
 * of -1e9, sinks as large as the logits, and parts of the keys with the whole's lse, which must be taken as it is. What
 * 16 bits hold of them beside PyTorch's own: tests/python/test_opinfo.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "kinds.h"

/* What a matrix unit makes of a weight in two parts of bfloat16; else of float32, some operations. */
#define SHARE_OF_PARTS 0x1p-15
#define SHARE 1e-6

static double share(void)
{
    return kind_in_bfloat16() ? SHARE_OF_PARTS : SHARE;
}

static double zero(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)index, (void)context;
    return 0;
}

static double far_below(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)index, (void)context;
    return -1e9;
}

/* Row i and key i have column i alone; their logits are 100 to 300, all others 0. */
static double diagonal(struct random *random, const int64_t index[4], const void *context)
{
    const double of_row = random_unit(random), largest = *(const double *)context;
    return index[2] == index[3] ? largest * (0.6 + 0.4 * of_row) : 0;
}

static void fill(struct gradient_call *g, enum tensor_id id, uint64_t seed, test_value *value, const void *context)
{
    struct random random = random_start(seed, 1);
    test_call_fill(&g->test, id, &random, value, context);
}

/* ---- weights of exactly 1 and 0 ---------------------------------------------------------------- */

static void check_one_hot(const char *strategy)
{
    const struct kind kind = { "one hot", 1, 2, 2, 20, 20, 20, 12, 0, 0 };
    const clattn_problem p = kind_problem(&kind);
    const double largest = 36;
    struct gradient_call g;
    kind_begin(&g, &p, strategy, kind_normal);
    fill(&g, TENSOR_QUERY, 3, diagonal, &largest);
    fill(&g, TENSOR_KEY, 4, diagonal, &largest);
    int good = kind_finish(&g, kind_normal) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    for (int64_t at = 0; at < g.arrays[GRADIENT_DVALUE].count && good; ++at) {
        const double dvalue = ((const float *)(const void *)g.arrays[GRADIENT_DVALUE].data)[at];
        const double dout = kind_get(&g.arrays[GRADIENT_DOUT], at);
        good = kind_in_bfloat16() ? fabs(dvalue - dout) <= SHARE_OF_PARTS * fabs(dout) : dvalue == dout;
    }
    kind_report(strategy, "weights of exactly 1: dvalue is dout", good);
    gradient_call_free(&g);
}

/* ---- a bias of -1e9 on all keys ---------------------------------------------------------------- */

/* scores: 0, and weights are 1 / n; else those of the formula, which add up to 1. */
static void check_far_below(const char *strategy, int scores)
{
    const struct kind kind = { "far below", 1, 2, 1, 40, 70, 20, 12, 0, 0 };
    clattn_problem p = kind_problem(&kind);
    struct gradient_call g;
    p.bias_type = CLATTN_FLOAT32;
    kind_begin(&g, &p, strategy, kind_normal);
    fill(&g, TENSOR_BIAS, 3, far_below, NULL);
    if (!scores) {
        fill(&g, TENSOR_QUERY, 3, zero, NULL);
    }
    int good = kind_finish(&g, kind_normal) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    for (int64_t c = 0; c < kind.head_dim_v && good; ++c) {
        double dout = 0, dvalue = 0, magnitude = 0;
        for (int64_t row = 0; row < kind.query_heads * kind.query_len; ++row) {
            const double x = gradient_call_get(&g, GRADIENT_DOUT, 0, row / kind.query_len, row % kind.query_len, c);
            dout += x;
            magnitude += fabs(x);
        }
        for (int64_t j = 0; j < kind.key_len; ++j) {
            const double x = gradient_call_get(&g, GRADIENT_DVALUE, 0, 0, j, c);
            good &= scores || fabs(x - dout / (double)kind.key_len) <= share() * magnitude / (double)kind.key_len;
            dvalue += x;
        }
        good &= fabs(dvalue - dout) <= share() * magnitude;
    }
    kind_report(strategy, scores ? "keys that all have a bias of -1e9: weights add up to 1" : "their weights are 1 / n",
                good);
    gradient_call_free(&g);
}

/* ---- logits of 100 to 200 ---------------------------------------------------------------------- */

#define ROWS 24
#define COLUMNS_MOST 96
#define KEYS 40
#define HEADS 2
#define DRAWS 40

/* The formula in float32, as PyTorch's math backend has it: queries and keys times the root of the scale, weights by
 * the row maximum and the sum, D by the weights. */
struct formula {
    float dquery[ROWS][COLUMNS_MOST], dkey[KEYS][COLUMNS_MOST], dvalue[KEYS][COLUMNS_MOST];
    float dsink;
};

static float get(const struct gradient_call *g, int id, int64_t h, int64_t i, int64_t c)
{
    return (float)(id < TENSOR_COUNT ? test_call_get(&g->test, (enum tensor_id)id, 0, h, i, c)
                                     : gradient_call_get(g, id, 0, h, i, c));
}

static void add_formula_row(const struct gradient_call *g, const struct kind *kind, int64_t h, int64_t i,
                            struct formula *f)
{
    const float root = (float)sqrt(1 / sqrt((double)kind->head_dim));
    const int has_sink = (kind->features & CLATTN_WITH_SINKS) != 0;
    const int64_t keys = kind->causal ? i + 1 : kind->key_len;
    float weight[KEYS], product[KEYS], most = has_sink ? get(g, TENSOR_SINKS, h, 0, 0) : -INFINITY, sum, d = 0;
    for (int64_t j = 0; j < keys; ++j) {
        weight[j] = product[j] = 0;
        for (int64_t c = 0; c < kind->head_dim; ++c) {
            weight[j] = fmaf(get(g, TENSOR_QUERY, h, i, c) * root, get(g, TENSOR_KEY, 0, j, c) * root, weight[j]);
        }
        for (int64_t c = 0; c < kind->head_dim_v; ++c) {
            product[j] = fmaf(get(g, GRADIENT_DOUT, h, i, c), get(g, TENSOR_VALUE, 0, j, c), product[j]);
        }
        most = fmaxf(most, weight[j]);
    }
    const float of_sink = has_sink ? expf(get(g, TENSOR_SINKS, h, 0, 0) - most) : 0;
    sum = of_sink;
    for (int64_t j = 0; j < keys; ++j) {
        weight[j] = expf(weight[j] - most);
        sum += weight[j];
    }
    for (int64_t j = 0; j < keys; ++j) {
        weight[j] /= sum;
        d = fmaf(weight[j], product[j], d);
    }
    d -= get(g, GRADIENT_DLSE, h, i, 0);
    f->dsink -= of_sink / sum * d;
    for (int64_t j = 0; j < keys; ++j) {
        const float dz = weight[j] * (product[j] - d) * root;
        for (int64_t c = 0; c < kind->head_dim; ++c) {
            f->dquery[i][c] = fmaf(dz, get(g, TENSOR_KEY, 0, j, c) * root, f->dquery[i][c]);
            f->dkey[j][c] = fmaf(dz, get(g, TENSOR_QUERY, h, i, c) * root, f->dkey[j][c]);
        }
        for (int64_t c = 0; c < kind->head_dim_v; ++c) {
            f->dvalue[j][c] = fmaf(weight[j], get(g, GRADIENT_DOUT, h, i, c), f->dvalue[j][c]);
        }
    }
}

/* Sums of squares of errors. */
struct errors {
    double own, formula;
};

static void add_errors(struct errors *errors, const struct gradient_call *g, const struct gradient_expected *expected,
                       int id, int64_t h, int64_t i, int64_t c, float by_formula)
{
    const double right = (double)gradient_sum_of(&expected->detail.sums[id], 0, h, i, c)->sum;
    const double own = gradient_call_get(g, id, 0, h, i, c) - right, formula = by_formula - right;
    errors->own += own * own;
    errors->formula += formula * formula;
}

/* out and lse as the strategy of that name has them. */
static int forward(const char *strategy, struct gradient_call *g)
{
    clattn_problem p = g->test.problem;
    p.strategy = strategy;
    return clattn_forward_host(kind_context, &p, &g->test.values, &g->test.tensors) == CLATTN_OK;
}

static int add_draw(const char *strategy, const struct kind *kind, uint64_t draw,
                    struct errors of[BACKWARD_TENSOR_COUNT])
{
    static struct formula formula; /* the heads of one key/value head */
    const clattn_problem p = kind_problem(kind);
    struct gradient_call g;
    struct gradient_expected expected;
    kind_begin(&g, &p, strategy, kind_normal);
    g.problem.features |= CLATTN_WITH_DLSE;
    g.problem.gradients |= kind->features & CLATTN_WITH_SINKS ? CLATTN_GRADIENT_SINKS : 0;
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        fill(&g, (enum tensor_id)id, 100 + draw * 3 + (uint64_t)id, kind_normal, NULL);
    }
    for (int64_t c = 0; kind->causal && c < kind->head_dim_v; ++c) { /* no row sees it */
        test_call_set(&g.test, TENSOR_VALUE, 0, 0, ROWS + 2, c, NAN);
    }
    kind_scale(&g.test.arrays[TENSOR_QUERY], 30 * exp2((double)(draw % 20) / 20));
    if (test_call_has(&g.test, TENSOR_SINKS)) {
        kind_scale(&g.test.arrays[TENSOR_SINKS], 0);
        kind_set(&g.test.arrays[TENSOR_SINKS], 0, 70 + 3.1 * (double)(draw % 7));
        kind_set(&g.test.arrays[TENSOR_SINKS], 1, 80 + 2.3 * (double)(draw % 5));
    }
    int good = kind_finish(&g, kind_normal) && gradient_call_expect(&g, &expected) == CLATTN_OK;
    if (!good) {
        return 0;
    }
    good = forward(strategy, &g) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    memset(&formula, 0, sizeof(formula));
    for (int64_t h = 0; h < HEADS && good; ++h) {
        memset(formula.dquery, 0, sizeof(formula.dquery));
        formula.dsink = 0;
        for (int64_t i = 0; i < ROWS; ++i) {
            add_formula_row(&g, kind, h, i, &formula);
        }
        for (int64_t i = 0; i < ROWS * kind->head_dim; ++i) {
            const int64_t row = i / kind->head_dim, c = i % kind->head_dim;
            add_errors(&of[GRADIENT_DQUERY], &g, &expected, GRADIENT_DQUERY, h, row, c, formula.dquery[row][c]);
        }
        if (test_call_has(&g.test, TENSOR_SINKS)) {
            add_errors(&of[GRADIENT_DSINKS], &g, &expected, GRADIENT_DSINKS, h, 0, 0, formula.dsink);
        }
    }
    for (int64_t j = 0; j < KEYS && good; ++j) {
        for (int64_t c = 0; c < kind->head_dim; ++c) {
            add_errors(&of[GRADIENT_DKEY], &g, &expected, GRADIENT_DKEY, 0, j, c, formula.dkey[j][c]);
        }
        for (int64_t c = 0; c < kind->head_dim_v; ++c) {
            add_errors(&of[GRADIENT_DVALUE], &g, &expected, GRADIENT_DVALUE, 0, j, c, formula.dvalue[j][c]);
        }
    }
    gradient_expected_free(&expected);
    gradient_call_free(&g);
    return good;
}

/* The root of the mean square of the errors of 40 draws, whose logits are twice as large at the last as at the first,
 * is at most that of the formula, and a tenth for chance; a quarter where the root of the scale is no power of two, so
 * that dot products of the one and the other lie at different places between powers of two. */
static void check_sharp(const char *strategy, int64_t head_dim, int causal, uint32_t features)
{
    const struct kind kind = { "sharp", 1, HEADS, 1, ROWS, KEYS, head_dim, 12, causal, features };
    struct errors of[BACKWARD_TENSOR_COUNT];
    int good = 1;
    memset(of, 0, sizeof(of));
    for (uint64_t draw = 0; draw < DRAWS && good; ++draw) {
        good = add_draw(strategy, &kind, draw, of);
    }
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT && good; ++id) {
        if (of[id].formula > 0) {
            const double ratio = sqrt(of[id].own / of[id].formula);
            printf("%s: %s: logits of 100 to 200, head_dim %lld%s: %.2f of the formula's error\n", strategy,
                   operation_backward.rows[id].name, (long long)head_dim, features ? ", sinks" : "", ratio);
            kind_report(strategy, "as exact as the formula in float32", ratio <= (head_dim == 16 ? 1.1 : 1.25));
        }
    }
    kind_report(strategy, "sharp logits", good);
}

/* ---- parts ------------------------------------------------------------------------------------- */

/* Where all keys are there twice, each half has half of every weight: its dvalue, dkey and dquery, with the whole's out
 * and lse, are half of what it would have alone. lse is rounded, so to 2^-13. */
static int is_near(const struct test_array *a, const struct test_array *b)
{
    double largest = 0, difference = 0;
    for (int64_t at = 0; at < a->count; ++at) {
        largest = fmax(largest, fabs(kind_get(a, at)));
        difference = fmax(difference, fabs(kind_get(a, at) - kind_get(b, at)));
    }
    return difference <= 0x1p-13 * largest;
}

static void check_half(const char *strategy)
{
    const struct kind kind = { "half", 1, HEADS, 1, ROWS, KEYS, 20, 12, 0, 0 };
    const clattn_problem p = kind_problem(&kind);
    struct gradient_call alone, half;
    kind_begin(&alone, &p, strategy, kind_normal);
    kind_begin(&half, &p, strategy, kind_normal);
    kind_scale(&alone.test.arrays[TENSOR_QUERY], 40);
    kind_scale(&half.test.arrays[TENSOR_QUERY], 40);
    int good = kind_finish(&alone, kind_normal) && kind_finish(&half, kind_normal);
    for (int64_t row = 0; row < HEADS * ROWS && good; ++row) {
        const double lse = test_call_get(&half.test, TENSOR_LSE, 0, row / ROWS, row % ROWS, 0);
        test_call_set(&half.test, TENSOR_LSE, 0, row / ROWS, row % ROWS, 0, lse + 0.69314718055994530942);
    }
    good = good && gradient_call_run(kind_context, &alone, 0) == CLATTN_OK &&
           gradient_call_run(kind_context, &half, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE && good; ++id) {
        kind_scale(&half.arrays[id], 2);
        kind_report(strategy, "half of the keys, with the whole's lse", is_near(&alone.arrays[id], &half.arrays[id]));
    }
    kind_report(strategy, "two calls of half of the keys", good);
    gradient_call_free(&alone);
    gradient_call_free(&half);
}

#define PARTS 2
#define PART_KEYS (KEYS / PARTS)

/* A part's keys and values with the whole's out and lse; its gradients join the whole's. */
static int add_part(const char *strategy, struct gradient_call *whole, const struct kind *kind, int64_t n)
{
    struct kind of_part = *kind;
    of_part.key_len = PART_KEYS;
    const clattn_problem p = kind_problem(&of_part);
    struct gradient_call part;
    kind_begin(&part, &p, strategy, kind_normal);
    int good = kind_finish(&part, kind_normal);
    for (int id = 0; id < TENSOR_COUNT && good; ++id) {
        const struct test_array *from = &whole->test.arrays[id];
        struct test_array *to = &part.test.arrays[id];
        const size_t bytes = (size_t)to->count * sizeof(float), at = to->count < from->count ? (size_t)n * bytes : 0;
        if (to->data && from->data) {
            memcpy(to->data, from->data + at, bytes);
        }
    }
    good = good && gradient_call_run(kind_context, &part, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DSCALE && good; ++id) {
        const struct test_array *from = &part.arrays[id];
        struct test_array *to = &whole->arrays[id];
        const int64_t at = from->count < to->count ? n * from->count : 0; /* of keys; else a sum over parts */
        for (int64_t i = 0; i < from->count && to->data; ++i) {
            kind_set(to, at + i, kind_get(from, i) + (from->count < to->count || n == 0 ? 0 : kind_get(to, at + i)));
        }
    }
    gradient_call_free(&part);
    return good;
}

/* A part of the keys knows the whole's lse to float32 alone: all weights of a row are off by u |lse|, as
 * the bound has it: no rest can be found again from some of its keys. */
static void check_parts(const char *strategy)
{
    const struct kind kind = { "sharp parts", 1, HEADS, 1, ROWS, KEYS, 20, 12, 0, 0 };
    const clattn_problem p = kind_problem(&kind);
    struct gradient_verdict verdict;
    struct gradient_call whole;
    kind_begin(&whole, &p, strategy, kind_normal);
    kind_scale(&whole.test.arrays[TENSOR_QUERY], 40);
    int good = kind_finish(&whole, kind_normal);
    for (int64_t n = 0; n < PARTS && good; ++n) {
        good = add_part(strategy, &whole, &kind, n);
    }
    kind_report(strategy, "parts of the keys at sharp logits: within the bound", good && kind_check(&whole, &verdict));
    gradient_call_free(&whole);
}

static void check_strategy(const char *strategy)
{
    check_one_hot(strategy);
    check_far_below(strategy, 0);
    check_far_below(strategy, 1);
    if (!kind_in_bfloat16()) {
        check_half(strategy);
        check_parts(strategy);
        check_sharp(strategy, 16, 1, CLATTN_WITH_SINKS);
        check_sharp(strategy, 24, 0, 0);
        check_sharp(strategy, 20, 0, CLATTN_WITH_SINKS);
        check_sharp(strategy, 96, 0, 0);
    }
}

int main(int argc, char **argv)
{
    return kind_main(argc, argv, 1, check_strategy);
}
