/* Errors over errors. */
#include "ratio.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naive.h"

/* Walks over the outputs of a call. */
struct visitor {
    const struct test_call *test;
    const struct reference_detail *detail;
    const double *plain; /* NULL: the call's own outputs */
    double excused;      /* the factor of what is excused; 0: nothing is */
    double largest, excess, largest_reference;
};

static double excused_error(const struct visitor *v, int64_t row, int64_t at)
{
    const struct reference_detail *d = v->detail;
    const double u = (double)FLT_EPSILON / 2, keys = (double)d->allowed_keys[row];
    const double unit = sqrt((double)v->test->checked.p.head_dim) * d->magnitude[row] + sqrt(keys) + 8;
    return v->excused * (u * unit + v->test->weight_rounding) * d->value_spread[at];
}

static void visit(struct visitor *v, int64_t row, int64_t at, double got)
{
    const double want = v->detail->out[at], error = fabs(got - want);
    if (!isfinite(error)) {
        return; /* what is not finite, the error bound judges */
    }
    const double excess = v->excused > 0 ? error - excused_error(v, row, at) : error;
    v->largest = fmax(v->largest, error);
    v->excess = fmax(v->excess, excess); /* of a NaN: nothing */
    v->largest_reference = fmax(v->largest_reference, fabs(want));
}

static void visit_sequence(struct visitor *v, int64_t b)
{
    const struct test_call *test = v->test;
    const clattn_problem *p = &test->checked.p;
    const int varlen = (p->features & CLATTN_WITH_VARLEN) != 0;
    const int64_t first = varlen ? (int64_t)test_call_get(test, TENSOR_CU_QUERY, 0, 0, 0, b) : 0;
    const int64_t after = varlen ? (int64_t)test_call_get(test, TENSOR_CU_QUERY, 0, 0, 0, b + 1) : 0;
    const int64_t rows = varlen && after - first < test->call.query_len ? after - first : test->call.query_len;
    for (int64_t h = 0; h < p->query_heads; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t row = (b * p->query_heads + h) * test->call.query_len + i;
            for (int64_t c = 0; c < p->head_dim_v; ++c) {
                const int64_t at = row * p->head_dim_v + c;
                visit(v, row, at,
                      v->plain ? v->plain[at] : test_call_get(test, TENSOR_OUT, varlen ? 0 : b, h, first + i, c));
            }
        }
    }
}

static void visit_all(struct visitor *v)
{
    for (int64_t b = 0; b < v->test->checked.p.batch; ++b) {
        visit_sequence(v, b);
    }
}

double plain_largest_error(const struct test_call *test, const struct expected *expected)
{
    const clattn_problem *p = &test->checked.p;
    const size_t n = (size_t)(p->batch * p->query_heads * test->call.query_len * p->head_dim_v);
    double *out = calloc(n + 1, sizeof(*out));
    if (!out) {
        abort();
    }
    naive_forward(test, NAIVE_STORAGE, out, NULL);
    struct visitor v = { .test = test, .detail = &expected->detail, .plain = out };
    visit_all(&v);
    free(out);
    return v.largest;
}

/* It says nothing where it is less than a sixteenth of the rounding error of the largest result. */
static int says_something(const struct visitor *v, double plain_largest)
{
    const double epsilon = v->test->checked.p.type == CLATTN_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
    return plain_largest > v->largest_reference * epsilon / 32;
}

void ratio_check(const struct test_call *test, const struct expected *expected, double plain_largest,
                 struct ratio *ratio)
{
    const clattn_type type = test->checked.p.type;
    const int judged = type == CLATTN_FLOAT16 || type == CLATTN_BFLOAT16;
    struct visitor v = { .test = test, .detail = &expected->detail, .excused = judged ? 2 : 0 };
    visit_all(&v);
    memset(ratio, 0, sizeof(*ratio));
    ratio->says_something = says_something(&v, plain_largest);
    if (ratio->says_something) {
        ratio->largest = v.largest / plain_largest;
    }
    if (judged && v.excess > plain_largest) {
        snprintf(ratio->wrong, sizeof(ratio->wrong),
                 "largest error %.6g, of which %.6g is not excused; the plain pipeline has %.6g", v.largest, v.excess,
                 plain_largest);
    }
}

void ratio_count(struct ratio_figures *figures, const struct ratio *ratio)
{
    if (ratio->says_something) {
        figures->worst = fmax(figures->worst, ratio->largest);
        figures->sum += ratio->largest;
        ++figures->calls;
    }
}
