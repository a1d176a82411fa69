/* usage: long_gradients [--strategy S,S...] [--device D]
 *
 * Gradients of biases, slopes, sinks and the scale that are sums of very many equal terms, whose rounding errors all go
 * one way: over the batch, over rows, over keys, by strides of 0, so that all of it is a few numbers in memory. Against
 * the formula in long double; what a gradient errs may not grow with the number of terms (docs/numbers.md). Strategies:
 * those that make these; the sums of others are in tests/sum_cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "operation/backward.h"
#include "support/device_options.h"

#define UNIT 0x1p-24
#define MANY 262144
#define KEYS 2 /* that differ: where keys are many, all are as the first one */

/* How many there are of what the sums are over, the others being 1 and KEYS. */
struct shape {
    const char *name;
    int64_t batch, rows, keys;
};

/* What the one row has. */
struct row {
    long double lse, out, d, p[KEYS], ds[KEYS], of_sink;
};

static const float query = 1, key[KEYS] = { 0, 0.3f }, value[KEYS] = { 0, 2 }, dout = 1.1f, dlse = 0.7f, sink = 0.2f;

static struct row row_of(const struct shape *shape)
{
    const int alike = shape->keys > KEYS;
    const long double times = alike ? (long double)shape->keys / KEYS : 1;
    struct row r;
    long double sum = expl((long double)sink), weights[KEYS];
    memset(&r, 0, sizeof(r));
    for (int j = 0; j < KEYS; ++j) {
        weights[j] = alike ? 1 : expl((long double)key[j]);
        sum += times * weights[j];
    }
    r.lse = logl(sum);
    r.of_sink = expl((long double)sink) / sum;
    for (int j = 0; j < KEYS; ++j) {
        r.p[j] = weights[j] / sum;
        r.out += times * r.p[j] * (long double)(alike ? value[0] : value[j]);
    }
    r.d = (long double)dout * r.out - (long double)dlse;
    for (int j = 0; j < KEYS; ++j) {
        r.ds[j] = r.p[j] * ((long double)dout * (long double)(alike ? value[0] : value[j]) - r.d);
    }
    return r;
}

struct run {
    clattn_context *context;
    const char *strategy;
    double sums; /* roundings that the plan says */
    int passed, failed;
};

/* u that are allowed: the sum's, and some of the logits, lse and D of the row, whose terms all share them. */
static void judge(struct run *run, const struct shape *shape, const struct row *r, const char *what, long double got,
                  long double right)
{
    const double error = (double)fabsl((got - right) / right) / UNIT;
    const double size = (double)((fabsl(r->d) + 1) / fabsl(r->ds[shape->keys > KEYS ? 0 : 1] / r->p[0]));
    const double allowed = run->sums + 8 * (8 + fabs((double)r->lse)) * (size > 1 ? size : 1);
    const int good = error <= allowed;
    printf("%s: %s over %s: %.3g u%s\n", run->strategy, what, shape->name, error, good ? "" : ", FAILED");
    run->passed += good;
    run->failed += !good;
}

static clattn_host_tensor at(const void *data, int64_t key_stride)
{
    return (clattn_host_tensor){ (void *)data, 0, { 0, 0, 0, key_stride } };
}

static clattn_host_tensor rows_at(const void *data, int64_t row_stride)
{
    return (clattn_host_tensor){ (void *)data, 0, { 0, 0, row_stride, 1 } };
}

static void run_shape(struct run *run, const struct shape *shape)
{
    const int alike = shape->keys > KEYS, is_placed = shape->rows == 1 && !alike;
    const struct row r = row_of(shape);
    const float out = (float)r.out, lse = (float)r.lse, zero = 0;
    float dbias[KEYS] = { NAN, NAN }, dslopes = NAN, dsinks = NAN, dscale = NAN;
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_backward_problem b = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    clattn_plan *plan = NULL;
    p.batch = shape->batch;
    p.query_len = shape->rows;
    p.key_len = shape->keys;
    p.head_dim = 1;
    p.bias_type = CLATTN_FLOAT32;
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_SINKS | (is_placed ? (uint32_t)CLATTN_WITH_SLOPES : 0);
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    b.forward = &p;
    b.features = CLATTN_WITH_DLSE;
    b.gradients = CLATTN_GRADIENT_BIAS | CLATTN_GRADIENT_SINKS | CLATTN_GRADIENT_SCALE |
                  (is_placed ? (uint32_t)CLATTN_GRADIENT_SLOPES : 0);
    b.strategy = run->strategy;
    call.has_scale = 1;
    call.scale = 1;
    tensors.query = rows_at(&query, 0);
    tensors.key = rows_at(key, !alike);
    tensors.value = rows_at(value, !alike);
    tensors.out = rows_at(&out, 0);
    tensors.lse = rows_at(&lse, 0);
    tensors.bias = at(&zero, 0);
    tensors.sinks = at(&sink, 0);
    gradients.dout = rows_at(&dout, 0);
    gradients.dlse = rows_at(&dlse, 0);
    gradients.dbias = at(dbias, !alike);
    gradients.dsinks = at(&dsinks, 0);
    gradients.dscale = at(&dscale, 0);
    if (is_placed) {
        tensors.slopes = at(&zero, 0);
        gradients.dslopes = at(&dslopes, 0);
    }
    clattn_status status = clattn_backward_plan_create(run->context, &b, &plan);
    run->sums = clattn_plan_sum_roundings(plan);
    clattn_plan_destroy(plan);
    if (status == CLATTN_OK) {
        status = clattn_backward_host(run->context, &b, &call, &tensors, &gradients);
    }
    if (status != CLATTN_OK) {
        printf("%s: over %s: %s\n", run->strategy, shape->name, clattn_last_error());
        ++run->failed;
        return;
    }
    const long double rows = (long double)shape->batch * (long double)shape->rows;
    judge(run, shape, &r, "dsinks", (long double)dsinks, -rows * r.of_sink * r.d);
    judge(run, shape, &r, "dbias", (long double)dbias[0], rows * r.ds[0] * (alike ? (long double)shape->keys : 1));
    if (!alike) {
        judge(run, shape, &r, "dbias of the other", (long double)dbias[1], rows * r.ds[1]);
        judge(run, shape, &r, "dscale", (long double)dscale, rows * r.ds[1] * (long double)key[1]);
    }
    if (is_placed) {
        judge(run, shape, &r, "dslopes", (long double)dslopes, -rows * r.ds[1]);
    }
}

int main(int argc, char **argv)
{
    struct device_options o;
    int passed = 0, failed = 0, skipped = 0;
    if (device_options_parse(argc, argv, "plain,fused_simd", &o) != 0) {
        return device_options_usage("long_gradients");
    }
    clattn_context *context = device_options_open(&o);
    if (!context) {
        return 1;
    }
    for (int s = 0; s < o.n_strategies; ++s) {
        const struct shape shapes[] = { { "the batch", MANY, 1, KEYS },
                                        { "rows", 1, MANY, KEYS },
                                        { "keys", 1, 1, MANY } };
        struct run run = { .context = context, .strategy = o.strategies[s] };
        for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); ++n) {
            run_shape(&run, &shapes[n]);
        }
        passed += run.passed;
        failed += run.failed;
    }
    clattn_context_destroy(context);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
