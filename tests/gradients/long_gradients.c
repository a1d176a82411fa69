/* usage: long_gradients [--strategy S,S...] [--device D]
 *
 * Gradients of biases, slopes, sinks and the scale that are sums of very many equal terms, whose rounding errors all go
 * one way: over the batch, over rows, over keys, by strides of 0, so that all of it is a few numbers in memory; and of
 * dot products of up to 4,096 equal columns. Against the formula in long double; what a gradient errs may not grow with
 * the number of terms (docs/numbers.md): 65,536, with CLATTN_TEST_LONG 262,144, dquery and fused_simd's columns too.
 * Sums over rows and keys of dquery, dkey and dvalue are in tests/sum_cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "operation/backward.h"
#include "support/device_options.h"

#define UNIT 0x1p-24
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

static int is_long(void)
{
    return getenv("CLATTN_TEST_LONG") != NULL;
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

/* ---- dot products of equal columns -------------------------------------------------------------- */

#define COLUMNS_MOST 4096

/* A row and KEYS keys, of which one column stands for all. */
struct wide {
    int columns;
    float query[COLUMNS_MOST], out[COLUMNS_MOST], dout[COLUMNS_MOST], dquery[COLUMNS_MOST];
    float key[KEYS][COLUMNS_MOST], value[KEYS][COLUMNS_MOST], dkey[KEYS][COLUMNS_MOST], dvalue[KEYS][COLUMNS_MOST];
    float lse, scale;
    long double p[KEYS], out_right, products[KEYS], d; /* what is right; products: dot(dout, value) */
};

static void fill_wide(struct wide *w, int columns)
{
    static const float keys[KEYS] = { 0.7f, 0.3f }, values[KEYS] = { 1.3f, -0.7f };
    long double sum = 0;
    memset(w, 0, sizeof(*w));
    w->columns = columns;
    w->scale = 1 / (float)columns;
    for (int j = 0; j < KEYS; ++j) {
        w->p[j] = expl((long double)w->scale * columns * (long double)1.1f * (long double)keys[j]);
        sum += w->p[j];
    }
    w->lse = (float)logl(sum);
    for (int j = 0; j < KEYS; ++j) {
        w->p[j] /= sum;
        w->out_right += w->p[j] * (long double)values[j];
        w->products[j] = columns * (long double)0.9f * (long double)values[j];
    }
    w->d = columns * (long double)0.9f * w->out_right;
    for (int c = 0; c < columns; ++c) {
        w->query[c] = 1.1f;
        w->dout[c] = 0.9f;
        w->out[c] = (float)w->out_right;
        for (int j = 0; j < KEYS; ++j) {
            w->key[j][c] = keys[j];
            w->value[j][c] = values[j];
        }
    }
}

/* As a share of the magnitudes that are subtracted: what the bound has of logits, whose A is 0.77. A sum
 * of all columns in a row is off by up to 10 sqrt(columns). */
static void judge_columns(struct run *run, const struct wide *w, const char *what, float got, long double right,
                          long double magnitude)
{
    const double error = (double)(fabsl((long double)got - right) / magnitude) / UNIT;
    const int good = error <= 4 * sqrt(w->columns) * 0.77;
    printf("%s: %s of %d columns: %.3g u%s\n", run->strategy, what, w->columns, error, good ? "" : ", FAILED");
    run->passed += good;
    run->failed += !good;
}

static void judge_wide(struct run *run, const struct wide *w)
{
    long double dquery = 0, of_dquery = 0;
    for (int j = 0; j < KEYS; ++j) {
        const long double share = (long double)w->scale * w->p[j], of_key = (long double)w->key[j][0];
        const long double ds = share * (w->products[j] - w->d), of_ds = share * (fabsl(w->products[j]) + fabsl(w->d));
        const long double dvalue = w->p[j] * (long double)0.9f, of_query = (long double)1.1f;
        judge_columns(run, w, "dvalue", w->dvalue[j][0], dvalue, dvalue);
        judge_columns(run, w, "dkey", w->dkey[j][0], ds * of_query, of_ds * of_query);
        dquery += ds * of_key;
        of_dquery += of_ds * of_key;
    }
    if (is_long()) {
        judge_columns(run, w, "dquery", w->dquery[0], dquery, of_dquery);
    }
}

/* Over the first `keys` of the keys. CLATTN_UNSUPPORTED: the strategy has no so wide heads. */
static clattn_status run_wide(struct run *run, struct wide *w, int keys)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_backward_problem b = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    p.query_len = 1;
    p.key_len = keys;
    p.head_dim = w->columns;
    p.features = CLATTN_WITH_LSE;
    b.forward = &p;
    b.gradients = CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE | (is_long() ? CLATTN_GRADIENT_QUERY : 0);
    b.strategy = run->strategy;
    call.has_scale = 1;
    call.scale = (double)w->scale;
    tensors.query = rows_at(w->query, 0);
    tensors.key = rows_at(w->key, COLUMNS_MOST);
    tensors.value = rows_at(w->value, COLUMNS_MOST);
    tensors.out = rows_at(w->out, 0);
    tensors.lse = rows_at(&w->lse, 0);
    gradients.dout = rows_at(w->dout, 0);
    if (is_long()) {
        gradients.dquery = rows_at(w->dquery, COLUMNS_MOST);
    }
    gradients.dkey = rows_at(w->dkey, COLUMNS_MOST);
    gradients.dvalue = rows_at(w->dvalue, COLUMNS_MOST);
    return clattn_backward_host(run->context, &b, &call, &tensors, &gradients);
}

/* The widest heads that the strategy takes. */
static void run_columns(struct run *run)
{
    static const int widths[] = { COLUMNS_MOST, 512 };
    static struct wide w;
    clattn_status status = CLATTN_UNSUPPORTED;
    for (size_t n = 0; n < sizeof(widths) / sizeof(widths[0]) && status == CLATTN_UNSUPPORTED; ++n) {
        fill_wide(&w, widths[n]);
        status = run_wide(run, &w, KEYS);
    }
    if (status == CLATTN_OK) {
        judge_wide(run, &w);
        memcpy(w.out, w.value[0], sizeof(w.out));
        status = run_wide(run, &w, 1);
    }
    if (status == CLATTN_OK) {
        const int good = w.dkey[0][0] == 0;
        printf("%s: of one key, D is dot(dout, value) to the bit%s\n", run->strategy, good ? "" : ", FAILED");
        run->passed += good;
        run->failed += !good;
    } else {
        printf("%s: %s\n", run->strategy, clattn_last_error());
        ++run->failed;
    }
}

/* Others leave them to plain's kernels. */
static int makes_scalars(const char *strategy)
{
    return strcmp(strategy, "plain") == 0 || strcmp(strategy, "fused_simd") == 0;
}

int main(int argc, char **argv)
{
    struct device_options o;
    int passed = 0, failed = 0, skipped = 0;
    if (device_options_parse(argc, argv, "plain,fused_simd,fused_simt", &o) != 0) {
        return device_options_usage("long_gradients");
    }
    clattn_context *context = device_options_open(&o);
    if (!context) {
        return 1;
    }
    for (int s = 0; s < o.n_strategies; ++s) {
        const int64_t many = is_long() ? 262144 : 65536;
        const struct shape shapes[] = { { "the batch", many, 1, KEYS },
                                        { "rows", 1, many, KEYS },
                                        { "keys", 1, 1, many } };
        struct run run = { .context = context, .strategy = o.strategies[s] };
        for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]) && makes_scalars(run.strategy); ++n) {
            run_shape(&run, &shapes[n]);
        }
        if (is_long() || strcmp(run.strategy, "fused_simd") != 0) {
            run_columns(&run);
        }
        passed += run.passed;
        failed += run.failed;
    }
    clattn_context_destroy(context);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
