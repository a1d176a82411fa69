/* usage: texts
 *
 * Gradients of each text of tests/support/user_codes.c against differences of the forward pass, in float64: those of
 * the reference, which its callbacks make, and with CLATTN_TEST_LONG those of the text itself, compiled into the plain
 * kernels, on devices that have float64. A slope that is not its score's derivative cannot pass, here or there; what
 * other strategies make of the texts is held against the reference by random_texts.sh. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clattn_backward.h"
#include "kinds.h"
#include "support/user_codes.h"

static const struct kind kind = { "texts", 2, 4, 2, 37, 70, 6, 5, 0, 0 };

/* sum of dout * out; 0 in *good after a failure. `context` NULL: by the reference. */
static double loss(clattn_context *context, struct gradient_call *g, int *good)
{
    const struct test_array *out = &g->test.arrays[TENSOR_OUT];
    const double *dout = (const double *)(const void *)g->arrays[GRADIENT_DOUT].data;
    double sum = 0;
    *good &= (context ? clattn_forward_host(context, &g->test.problem, &g->test.values, &g->test.tensors)
                      : clattn_reference_forward(&g->test.problem, &g->test.values, &g->test.tensors)) == CLATTN_OK;
    for (int64_t at = 0; at < out->count; ++at) {
        sum += ((const double *)(const void *)out->data)[at] * dout[at];
    }
    return sum;
}

/* Along a direction of chance in one input. */
static int is_derivative(clattn_context *context, struct gradient_call *g, int n, struct random *random)
{
    static const enum tensor_id inputs[] = { TENSOR_QUERY, TENSOR_KEY, TENSOR_VALUE };
    const double step = 1e-5;
    struct test_array *array = &g->test.arrays[inputs[n]];
    double *x = (double *)(void *)array->data, *direction = calloc((size_t)array->count, sizeof(double));
    const double *found = (const double *)(const void *)g->arrays[GRADIENT_DQUERY + n].data;
    struct sum wanted = { 0, 0 }, sides[2] = { { 0, 0 }, { 0, 0 } };
    int good = direction != NULL;
    for (int64_t at = 0; at < array->count && good; ++at) {
        direction[at] = random_normal(random);
        sum_add(&wanted, found[at] * direction[at]);
    }
    for (int side = 0; side < 2 && good; ++side) {
        for (int64_t at = 0; at < array->count; ++at) {
            x[at] += (side ? -2 : 1) * step * direction[at];
        }
        sides[side].sum = loss(context, g, &good) / (2 * step);
    }
    for (int64_t at = 0; at < array->count && good; ++at) {
        x[at] += step * direction[at];
    }
    sides[0].sum -= sides[1].sum;
    free(direction);
    return good && sum_near(sides[0], wanted);
}

/* 2: the device has no float64. */
static int check(clattn_context *context, const struct test_code *code)
{
    static const char *const names[] = { "query", "key", "value" };
    struct random random = random_start(13, 4);
    struct gradient_call g;
    clattn_problem p = kind_problem(&kind);
    p.type = CLATTN_FLOAT64;
    p.code = test_code_problem(code);
    kind_begin(&g, &p, context ? "plain" : NULL, kind_normal);
    test_code_fill(code, &g.test);
    g.problem.gradients = ALL_THREE;
    g.problem.gradient_type = CLATTN_TYPE_NONE; /* float64, too */
    int good = kind_finish(&g, kind_normal);
    const clattn_status status = good ? gradient_call_run(context, &g, 0) : CLATTN_OK;
    good &= status == CLATTN_OK;
    for (int n = 0; n < 3 && status != CLATTN_UNSUPPORTED; ++n) {
        char what[64];
        snprintf(what, sizeof(what), "text %s, %s", code->name, names[n]);
        kind_report(context ? "plain" : "the reference", what, good && is_derivative(context, &g, n, &random));
    }
    gradient_call_free(&g);
    return status == CLATTN_UNSUPPORTED ? 2 : 0;
}

static void check_all(const char *strategy)
{
    (void)strategy;
    const char *is_long = getenv("CLATTN_TEST_LONG");
    const struct test_code *code;
    for (size_t n = 0; (code = test_code_at(n)); ++n) {
        check(NULL, code);
        if (is_long && *is_long && check(kind_context, code) == 2) {
            printf("no float64 on this device: only the reference's gradients are tried\n");
        }
    }
}

int main(int argc, char **argv)
{
    char strategy[] = "--strategy", plain[] = "plain";
    char *arguments[] = { argv[0], strategy, plain, NULL };
    return argc > 1 ? 2 : kind_main(3, arguments, 0, check_all);
}
