/* The reference's gradients, in closed form, against the forward pass itself: written once more in complex numbers, and
 * differentiated by a complex step (Squire and Trapp, 1998): f'(x) = Im f(x + i h) / h, without cancellation, so that h
 * may be 1e-30 and the derivative is good to the last bits. With all features at once. And calls that are refused. */
#include <check.h>
#include <complex.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "reference/reference_backward.h"
#include "reference/visibility.h"
#include "support/gradient_call.h"

#define STEP 1e-30
#define NOWHERE (-1)

static double normal(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    return *(const double *)context * random_normal(random);
}

static double length(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)context;
    return index[3] == 0 ? 9 : 6;
}

/* Two batch entries, 4 heads on 2, a bias that is shared by batch and rows and hides two keys, and all else. */
static void begin(struct gradient_call *g)
{
    const clattn_backward_problem defaults = CLATTN_BACKWARD_PROBLEM_INIT;
    const struct test_layout shared = { .order = { 0, 1, 2, 3 }, .broadcast = { 1, 0, 1, 0 }, .run_multiple = 1 };
    const double one = 1, small = 0.2;
    struct random random = random_start(3, 1);
    clattn_problem p = CLATTN_PROBLEM_INIT;
    memset(g, 0, sizeof(*g));
    p.type = p.bias_type = CLATTN_FLOAT64;
    p.batch = 2;
    p.query_heads = 4;
    p.kv_heads = 2;
    p.query_len = 7;
    p.key_len = 9;
    p.head_dim = 5;
    p.head_dim_v = 3;
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS | CLATTN_WITH_KEY_LENGTHS;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = 4;
    p.window_right = 3;
    p.softcap = 1.5;
    p.dropout = 0.3;
    test_call_start(&g->test, &p);
    g->test.values.has_scale = 1;
    g->test.values.scale = -0.7;
    g->test.values.dropout_seed = 5;
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        if (test_call_has(&g->test, (enum tensor_id)id)) {
            test_call_place(&g->test, (enum tensor_id)id, id == TENSOR_BIAS ? &shared : NULL);
        }
    }
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        test_call_fill(&g->test, (enum tensor_id)id, &random, normal, &one);
    }
    test_call_fill(&g->test, TENSOR_BIAS, &random, normal, &one);
    test_call_set(&g->test, TENSOR_BIAS, 0, 1, 0, 2, -INFINITY);
    test_call_fill(&g->test, TENSOR_SLOPES, &random, normal, &small);
    test_call_fill(&g->test, TENSOR_SINKS, &random, normal, &one);
    test_call_fill(&g->test, TENSOR_KEY_LENGTHS, &random, length, NULL);
    g->problem = defaults;
    g->problem.gradients = 0x7f;
    g->problem.features = CLATTN_WITH_DLSE;
    ck_assert_int_eq(gradient_call_start(g), CLATTN_OK);
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT; ++id) {
        gradient_call_place(g, id, id == GRADIENT_DBIAS ? &shared : NULL);
    }
    gradient_call_fill(g, GRADIENT_DOUT, &random, normal, &one);
    gradient_call_fill(g, GRADIENT_DLSE, &random, normal, &one);
    gradient_call_keep(g);
    ck_assert_int_eq(test_call_validate(&g->test), CLATTN_OK);
}

/* Element `at` of the memory of tensor `moved` has an imaginary part; moved TENSOR_COUNT: the scale. */
struct forward {
    const struct gradient_call *g;
    int moved;
    int64_t at;
};

static double complex element(const struct forward *f, int id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const clattn_host_tensor *t = test_call_tensor((struct test_call *)&f->g->test, (enum tensor_id)id);
    const int64_t at = t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + c * t->stride[3];
    const double value = test_call_get(&f->g->test, (enum tensor_id)id, b, h, i, c);
    return id == f->moved && at == f->at ? value + I * STEP : value;
}

/* What row (b, h, i) has in L = sum(out dout) + sum(lse dlse). */
static double complex loss_of_row(const struct forward *f, int64_t b, int64_t h, int64_t i)
{
    const struct test_call *test = &f->g->test;
    const clattn_problem *p = &test->checked.p;
    const struct sequence s = sequence_of(&test->checked, &test->call, b);
    const double complex scale = test->values.scale + (f->moved == TENSOR_COUNT ? I * STEP : 0);
    double complex logits[16], sum = cexp(element(f, TENSOR_SINKS, 0, h, 0, 0)), loss = 0;
    unsigned char kept[16];
    int seen = 0;
    dropout_of_row(&test->checked, &test->call, b, h, i, s.stored_keys, kept);
    for (int64_t j = 0; j < s.stored_keys; ++j) {
        double complex dot = 0;
        logits[j] = -INFINITY;
        if (key_is_allowed(&test->checked, &test->call, &s, b, h, i, j)) {
            for (int64_t c = 0; c < p->head_dim; ++c) {
                dot += element(f, TENSOR_QUERY, b, h, i, c) * element(f, TENSOR_KEY, b, h / 2, j, c);
            }
            logits[j] = p->softcap * ctanh(scale * dot / p->softcap) + element(f, TENSOR_BIAS, b, h, i, j) -
                        element(f, TENSOR_SLOPES, b, h, 0, 0) * fabs((double)(i + s.offset - j));
            sum += cexp(logits[j]);
            seen = 1;
        }
    }
    for (int64_t j = 0; j < s.stored_keys && seen; ++j) {
        const int counts = creal(logits[j]) > -INFINITY && kept[j];
        for (int64_t c = 0; c < p->head_dim_v && counts; ++c) {
            loss += cexp(logits[j]) / sum / (1 - p->dropout) * element(f, TENSOR_VALUE, b, h / 2, j, c) *
                    gradient_call_get(f->g, GRADIENT_DOUT, b, h, i, c);
        }
    }
    return seen ? loss + clog(sum) * gradient_call_get(f->g, GRADIENT_DLSE, b, h, i, 0) : 0;
}

static double derivative(const struct gradient_call *g, int moved, int64_t at)
{
    const struct forward f = { g, moved, at };
    double sum = 0;
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t h = 0; h < 4; ++h) {
            for (int64_t i = 0; i < 7; ++i) {
                sum += cimag(loss_of_row(&f, b, h, i)) / STEP;
            }
        }
    }
    return sum;
}

START_TEST(test_complex_step)
{
    static const int moved[] = { TENSOR_QUERY,  TENSOR_KEY,   TENSOR_VALUE, TENSOR_BIAS,
                                 TENSOR_SLOPES, TENSOR_SINKS, TENSOR_COUNT };
    struct gradient_call g;
    struct backward_problem problem;
    struct call call;
    struct backward_detail detail = { .own_forward = 1 };
    begin(&g);
    ck_assert_int_eq(backward_problem_init(&problem, &g.problem), CLATTN_OK);
    ck_assert_int_eq(backward_call_from_host(&problem, &g.test.values, &g.test.tensors, &g.gradients, &call),
                     CLATTN_OK);
    ck_assert_int_eq(reference_backward_detail(&problem, &call, &detail), CLATTN_OK);
    for (size_t n = 0; n < sizeof(moved) / sizeof(moved[0]); ++n) {
        const struct gradient_sums *sums = &detail.sums[GRADIENT_DQUERY + (int)n];
        for (int64_t at = 0; at < sums->count; ++at) {
            const double right = derivative(&g, moved[n], at), got = (double)sums->sums[at].sum;
            ck_assert_msg(fabs(got - right) <= 2e-14 * (1 + fabs(right)), "gradient %zu, element %d: %.17g, not %.17g",
                          n, (int)at, got, right);
        }
    }
    backward_detail_free(&detail);
    gradient_call_free(&g);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

static void expect(const struct gradient_call *g, clattn_status status, const char *text)
{
    const clattn_status got = clattn_reference_backward(&g->problem, &g->test.values, &g->test.tensors, &g->gradients);
    ck_assert_msg(got == status && (status == CLATTN_OK || strstr(clattn_last_error(), text)),
                  "\"%s\" was expected, and it is %s: %s", text, clattn_status_name(got), clattn_last_error());
}

/* Changes one thing, expects the refusal, and takes it back. */
#define REFUSED(change, status, text)                                                                                  \
    do {                                                                                                               \
        const struct gradient_call before = g;                                                                         \
        change;                                                                                                        \
        expect(&g, status, text);                                                                                      \
        g = before;                                                                                                    \
        g.problem.forward = &g.test.problem;                                                                           \
    } while (0)

START_TEST(test_refusals)
{
    struct gradient_call g;
    begin(&g);
    expect(&g, CLATTN_OK, "");
    REFUSED(g.problem.forward = NULL, CLATTN_INVALID_ARGUMENT, "forward: must point");
    REFUSED(g.problem.gradients = 0, CLATTN_INVALID_ARGUMENT, "gradients 0x0");
    REFUSED(g.problem.gradients = 0x80, CLATTN_INVALID_ARGUMENT, "gradients 0x80");
    REFUSED(g.problem.features = 2, CLATTN_INVALID_ARGUMENT, "features 0x2: bits 0x2");
    REFUSED(g.problem.features = 0, CLATTN_INVALID_ARGUMENT, "dlse: was given");
    REFUSED(g.problem.gradient_type = CLATTN_FLOAT32, CLATTN_INVALID_ARGUMENT, "gradient_type 1");
    REFUSED(g.test.problem.weights = CLATTN_WEIGHTS_SOFTMAX, CLATTN_UNSUPPORTED, "weights 4");
    REFUSED(g.test.problem.bias_type = CLATTN_TYPE_NONE, CLATTN_INVALID_ARGUMENT, "dbias needs bias_type");
    REFUSED(g.test.problem.features &= ~(uint32_t)CLATTN_WITH_SINKS, CLATTN_INVALID_ARGUMENT, "dsinks needs");
    REFUSED(g.test.problem.features &= ~(uint32_t)CLATTN_WITH_SLOPES, CLATTN_INVALID_ARGUMENT, "dslopes needs");
    REFUSED(g.problem.gradients = 1; g.problem.accumulate = 2, CLATTN_INVALID_ARGUMENT, "accumulate 0x2");
    REFUSED(g.test.values.mask_first_key = 1, CLATTN_UNSUPPORTED, "mask_first_key 1: a gradient of the bias");
    REFUSED(g.gradients.dkey.data = NULL, CLATTN_INVALID_ARGUMENT, "dkey: must be given");
    REFUSED(g.gradients.dout.data = NULL, CLATTN_INVALID_ARGUMENT, "dout: must be given");
    REFUSED(g.test.tensors.lse.data = NULL, CLATTN_INVALID_ARGUMENT, "lse: must be given");
    REFUSED(g.problem.gradients = 3, CLATTN_INVALID_ARGUMENT, "dvalue: was given");
    REFUSED(g.gradients.dquery.stride[1] = 0, CLATTN_INVALID_ARGUMENT, "dquery.stride[1] 0");
    REFUSED(g.gradients.dquery.stride[3] = 2, CLATTN_INVALID_ARGUMENT, "dquery.stride[3] 2");
    REFUSED(g.gradients.dkey.data = g.gradients.dquery.data, CLATTN_INVALID_ARGUMENT, "its memory is also");
    REFUSED(g.gradients.dvalue.data = g.test.tensors.value.data, CLATTN_INVALID_ARGUMENT, "its memory is also");
    REFUSED(g.gradients.dbias.stride[1] = 1, CLATTN_INVALID_ARGUMENT, "two elements of the output");
    gradient_call_free(&g);
}
END_TEST

/* Sums in 16 bits are refused, and float32 gradients of 16-bit inputs are the way. */
START_TEST(test_accumulation_needs_float32)
{
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    struct backward_problem checked;
    forward.type = CLATTN_FLOAT16;
    forward.query_len = forward.key_len = forward.head_dim = 2;
    problem.forward = &forward;
    problem.gradients = problem.accumulate = CLATTN_GRADIENT_KEY;
    ck_assert_int_eq(backward_problem_init(&checked, &problem), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "dkey is float16"));
    problem.gradient_type = CLATTN_FLOAT32;
    ck_assert_int_eq(backward_problem_init(&checked, &problem), CLATTN_OK);
}
END_TEST

/* Kept plans are found by it. A bit of each byte that the backward has beside the forward's, and one of those. */
START_TEST(test_equality_sees_every_field)
{
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    struct backward_problem one, other;
    forward.query_len = forward.key_len = forward.head_dim = 2;
    problem.forward = &forward;
    problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY;
    ck_assert_int_eq(backward_problem_init(&one, &problem), CLATTN_OK);
    ck_assert_int_ne(problem_equal(&one.attention.any, &one.attention.any), 0);
    const size_t end = offsetof(struct backward_problem, dbias_type) + sizeof(one.dbias_type);
    for (size_t at = offsetof(struct backward_problem, p.gradients); at < end; ++at) {
        if (at == offsetof(struct backward_problem, p.gradient_type)) {
            at = offsetof(struct backward_problem, dquery_type); /* what it came to */
        }
        other = one;
        ((unsigned char *)&other)[at] ^= 1;
        ck_assert_msg(!problem_equal(&one.attention.any, &other.attention.any), "byte %zu was not seen", at);
    }
    other = one;
    other.attention.p.key_len = 3;
    ck_assert_int_eq(problem_equal(&one.attention.any, &other.attention.any), 0);
}
END_TEST

#include "suite.h"
SUITE("gradients", test_complex_step, test_refusals, test_accumulation_needs_float32, test_equality_sees_every_field)
