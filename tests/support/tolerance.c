/* One function for each output; all report the C that they needed through judge(). */
#include "tolerance.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/sum_bound.h"

clattn_status expected_create(struct expected *expected, const struct test_call *test)
{
    const clattn_problem *p = &test->checked.p;
    size_t rows = (size_t)(p->batch * p->query_heads * test->call.query_len) + 1;
    size_t columns = (size_t)p->head_dim_v, keys = (size_t)test->call.key_len + 1;
    int weights = p->weights != CLATTN_WEIGHTS_NONE;
    struct reference_detail *d = &expected->detail;
    d->out = calloc(rows * columns, sizeof(double));
    d->value_spread = calloc(rows * columns, sizeof(double));
    d->lse = calloc(rows, sizeof(double));
    d->magnitude = calloc(rows, sizeof(double));
    d->allowed_keys = calloc(rows, sizeof(int64_t));
    d->weights = weights ? calloc(rows * keys, sizeof(double)) : NULL;
    d->weights_magnitude = weights ? calloc(rows * keys, sizeof(double)) : NULL;
    if (!d->out || !d->value_spread || !d->lse || !d->magnitude || !d->allowed_keys ||
        (weights && (!d->weights || !d->weights_magnitude))) {
        expected_free(expected);
        return CLATTN_OUT_OF_HOST_MEMORY;
    }
    return reference_forward_detail(&test->checked, &test->call, d);
}

void expected_free(struct expected *expected)
{
    struct reference_detail *d = &expected->detail;
    double *const parts[] = { d->out, d->value_spread, d->lse, d->magnitude, d->weights, d->weights_magnitude };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
        free(parts[i]);
    }
    free(d->allowed_keys);
    memset(expected, 0, sizeof(*expected));
}

struct check {
    const struct test_call *test;
    const struct reference_detail *detail;
    struct verdict *verdict;
    double u, least;      /* unit roundoff of what is computed in; what exp may flush to zero */
    double largest_value; /* |v| */
    int64_t b, h, i;      /* the row, and */
    int64_t at, packed;   /* where it is in the dense detail and in outputs */
};

/* An error bound is C * unit + floor; rounding to the output's type comes on top. */
struct bound {
    double unit, floor;
    clattn_type type;
    int any_non_finite; /* infinity and NaN are the same: 0 * infinity, where a weight underflows */
};

/* Half a unit in the last place of numbers up to `magnitude`, of a type's or of `u`'s precision. */
static double half_ulp(clattn_type type, double magnitude)
{
    int digits = type == CLATTN_FLOAT16 ? 11 : type == CLATTN_BFLOAT16 ? 8 : FLT_MANT_DIG, exponent;
    int least = type == CLATTN_FLOAT16 ? -13 : -125;
    frexp(magnitude, &exponent);
    return ldexp(0.5, (exponent < least ? least : exponent) - digits);
}

static double largest_of(clattn_type type)
{
    return type == CLATTN_FLOAT16 ? 65504.0 : type == CLATTN_FLOAT64 ? DBL_MAX : FLT_MAX;
}

/* The C that `got` needs for `want`: 0 when it is as good as rounding makes it, infinity when no C can
 * excuse it. */
static double needed(double got, double want, const struct bound *bound)
{
    if (!isfinite(want)) {
        int same_infinity = isinf(want) && isinf(got) && signbit(want) == signbit(got);
        int either = isnan(want) || bound->any_non_finite;
        return same_infinity || (either && !isfinite(got)) ? 0 : (double)INFINITY;
    }
    double t = TOLERANCE_C * bound->unit + bound->floor;
    double rounding = bound->type == CLATTN_TYPE_NONE ? 0 : half_ulp(bound->type, fabs(want) + t);
    if (isinf(got) && signbit(got) == signbit(want) && fabs(want) + t + rounding > largest_of(bound->type) &&
        bound->type != CLATTN_TYPE_NONE) {
        return 0; /* it rounds to infinity */
    }
    if (!isfinite(got)) {
        return (double)INFINITY;
    }
    double excess = fabs(got - want) - rounding - bound->floor;
    return excess <= 0 ? 0 : bound->unit > 0 ? excess / bound->unit : (double)INFINITY;
}

static void judge(struct check *c, const char *name, int64_t column, double got, double want, const struct bound *bound,
                  double *c_needed)
{
    double need = needed(got, want, bound);
    *c_needed = need > *c_needed ? need : *c_needed;
    if (need <= TOLERANCE_C) {
        return;
    }
    if (c->verdict->wrong++ == 0) {
        snprintf(c->verdict->first, sizeof(c->verdict->first),
                 "%s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is %.9g, should be %.9g: needs C = %.3g", name,
                 c->b, c->h, c->i, column, got, want, need);
    }
}

/* What the sums over a row's keys add: `share` of that, and no more than independent errors do where they are that. */
static double of_sums(const struct check *c, double share)
{
    const double keys = (double)c->detail->allowed_keys[c->at], any = share * sum_bound(keys, c->test->sum_roundings);
    return c->test->terms_are_alike || (any > 0 && any < sqrt(keys)) ? any : sqrt(keys);
}

static double row_unit(const struct check *c, double share)
{
    return sqrt((double)c->test->checked.p.head_dim) * c->detail->magnitude[c->at] + of_sums(c, share) + 8;
}

/* The type that a result is rounded to after it was computed; none when it is the computing one. */
static clattn_type rounded_type(clattn_type computed, clattn_type stored)
{
    int same = (computed == CLATTN_FLOAT64) == (stored == CLATTN_FLOAT64) && stored != CLATTN_FLOAT16 &&
               stored != CLATTN_BFLOAT16;
    return same ? CLATTN_TYPE_NONE : stored;
}

/* How far rounded queries and keys change a row's logits: not by a NaN, where nothing is rounded and a logit is not
 * finite. */
static double logit_rounding(const struct check *c)
{
    return c->test->factor_rounding > 0 ? 2 * c->test->factor_rounding * c->detail->magnitude[c->at] : 0;
}

static void check_out(struct check *c)
{
    const clattn_problem *p = &c->test->checked.p;
    int64_t b = p->features & CLATTN_WITH_VARLEN ? 0 : c->b;
    for (int64_t column = 0; column < p->head_dim_v; ++column) {
        double want = c->detail->out[c->at * p->head_dim_v + column];
        double got = test_call_get(c->test, TENSOR_OUT, b, c->h, c->packed, column);
        double keys = (double)c->detail->allowed_keys[c->at];
        struct bound bound = {
            .unit = c->u * row_unit(c, 1) * c->detail->value_spread[c->at * p->head_dim_v + column],
            .floor = keys * c->least * c->largest_value / (1 - p->dropout) +
                     (c->test->weight_rounding + 2 * logit_rounding(c) + c->test->factor_rounding) *
                         c->detail->value_spread[c->at * p->head_dim_v + column],
            .type = rounded_type(p->type, p->out_type),
            .any_non_finite = 1,
        };
        if (c->detail->allowed_keys[c->at] == 0) {
            bound = (struct bound){ 0, 0, CLATTN_TYPE_NONE, 0 };
        }
        judge(c, "out", column, got, want, &bound, &c->verdict->c_out);
    }
}

static void check_lse(struct check *c)
{
    const clattn_problem *p = &c->test->checked.p;
    double want = c->detail->lse[c->at];
    clattn_type computed = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    struct bound bound = { .unit = c->u * (row_unit(c, 0.5) + fabs(want)),
                           .floor = logit_rounding(c),
                           .type = rounded_type(computed, CLATTN_FLOAT32) };
    int64_t b = p->features & CLATTN_WITH_VARLEN ? 0 : c->b;
    judge(c, "lse", 0, test_call_get(c->test, TENSOR_LSE, b, c->h, c->packed, 0), want, &bound, &c->verdict->c_lse);
}

/* Also of rows past a packed sequence's end, which have weights but no other output. */
static void check_weights(struct check *c)
{
    const clattn_problem *p = &c->test->checked.p;
    int64_t keys = c->test->call.key_len;
    for (int64_t j = 0; j < keys; ++j) {
        double want = c->detail->weights[c->at * keys + j];
        double magnitude = c->detail->weights_magnitude[c->at * keys + j];
        double got = test_call_get(c->test, TENSOR_WEIGHTS, c->b, c->h, c->i, j);
        double root = sqrt((double)p->head_dim);
        struct bound bound = { c->u * (root + 8) * magnitude, c->least, CLATTN_TYPE_NONE, 0 };
        if (p->weights == CLATTN_WEIGHTS_SOFTMAX) {
            bound.unit = c->u * want * (root * magnitude + row_unit(c, 0.5) + fabs(c->detail->lse[c->at]));
            bound.floor = want > 0 ? c->least : 0;
        }
        judge(c, "weights", j, got, want, &bound, &c->verdict->c_weights);
    }
}

static double largest_finite_value(const struct test_call *test)
{
    int64_t n[4];
    double largest = 0;
    test_call_shape(test, TENSOR_VALUE, n);
    for (int64_t b = 0; b < n[0]; ++b) {
        for (int64_t h = 0; h < n[1]; ++h) {
            for (int64_t i = 0; i < n[2]; ++i) {
                for (int64_t column = 0; column < n[3]; ++column) {
                    double v = fabs(test_call_get(test, TENSOR_VALUE, b, h, i, column));
                    largest = isfinite(v) && v > largest ? v : largest;
                }
            }
        }
    }
    return largest;
}

static void check_row(struct check *c)
{
    const struct test_call *test = c->test;
    int varlen = (test->checked.p.features & CLATTN_WITH_VARLEN) != 0;
    int64_t first = varlen ? (int64_t)test_call_get(test, TENSOR_CU_QUERY, 0, 0, 0, c->b) : 0;
    int64_t rows = varlen ? (int64_t)test_call_get(test, TENSOR_CU_QUERY, 0, 0, 0, c->b + 1) - first
                          : test->call.query_len;
    c->packed = first + c->i;
    if (c->i < rows) {
        check_out(c);
        if (test_call_has(test, TENSOR_LSE)) {
            check_lse(c);
        }
    }
    if (test_call_has(test, TENSOR_WEIGHTS)) {
        check_weights(c);
    }
}

void tolerance_check(const struct test_call *test, const struct expected *expected, struct verdict *verdict)
{
    const clattn_problem *p = &test->checked.p;
    int wide = p->type == CLATTN_FLOAT64;
    struct check c = { .test = test, .detail = &expected->detail, .verdict = verdict };
    memset(verdict, 0, sizeof(*verdict));
    c.u = wide ? DBL_EPSILON / 2 : (double)FLT_EPSILON / 2;
    c.least = 2 * (wide ? DBL_MIN : (double)FLT_MIN); /* an exp may give up a little before the end */
    c.largest_value = largest_finite_value(test);
    for (c.b = 0; c.b < p->batch; ++c.b) {
        for (c.h = 0; c.h < p->query_heads; ++c.h) {
            for (c.i = 0; c.i < test->call.query_len; ++c.i) {
                c.at = (c.b * p->query_heads + c.h) * test->call.query_len + c.i;
                check_row(&c);
            }
        }
    }
}
