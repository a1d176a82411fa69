/* usage: identities [--strategy S]
 *
 * What gradients have within rounding, whatever the numbers are, for each strategy: sums over rows and keys that the
 * formula fixes, gradients that add up, problems that are the same in two ways, and derivatives of the forward pass
 * itself. No reference's gradients are looked at. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "kinds.h"

static const struct kind kind = { "identities", 2, 4, 2, 37, 530, 20, 12, 0, 0 };

static double gradient(const struct gradient_call *g, int id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return gradient_call_get(g, id, b, h, i, c);
}

static double input(const struct gradient_call *g, enum tensor_id id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return test_call_get(&g->test, id, b, h, i, c);
}

/* sum_c of one row with another, added. */
static void add_row(const struct gradient_call *g, int of_gradient, enum tensor_id of_input, int64_t b, int64_t h,
                    int64_t i, struct sum *sum)
{
    const int64_t columns = of_input == TENSOR_QUERY || of_input == TENSOR_KEY ? kind.head_dim : kind.head_dim_v;
    for (int64_t c = 0; c < columns; ++c) {
        sum_add(sum, gradient(g, of_gradient, b, h, i, c) * input(g, of_input, b, h, i, c));
    }
}

/* ---- a problem with everything ---------------------------------------------------------------- */

static void scale_array(struct test_array *array, float by)
{
    for (int64_t i = 0; i < array->count; ++i) {
        ((float *)(void *)array->data)[i] *= by;
    }
}

static int begin_everything(struct gradient_call *g, const char *strategy)
{
    clattn_problem p = kind_problem(&kind);
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = 300;
    p.softcap = 1.5;
    p.dropout = 0.3;
    p.bias_type = CLATTN_FLOAT32;
    p.features |= CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS | CLATTN_WITH_KEY_LENGTHS;
    kind_begin(g, &p, strategy, kind_normal);
    scale_array(&g->test.arrays[TENSOR_SLOPES], 0.01f);
    g->test.values.has_scale = 1;
    g->test.values.scale = -0.3;
    g->test.values.dropout_seed = 5;
    g->problem.features = CLATTN_WITH_DLSE;
    g->problem.gradients = ALL_THREE_AND_SCALE | CLATTN_GRADIENT_BIAS | CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SINKS;
    return kind_finish(g, kind_normal);
}

/* sum_j dS = dlse + exp(sink - lse) D in each row; so all dbias and dsinks are all dlse. */
static void check_rows_of_scores(const char *strategy, const struct gradient_call *g)
{
    struct sum all = { 0, 0 }, all_dlse = { 0, 0 };
    int good = 1;
    for (int64_t row = 0; row < kind.batch * kind.query_heads * kind.query_len; ++row) {
        const int64_t i = row % kind.query_len, h = row / kind.query_len % kind.query_heads,
                      b = row / kind.query_len / kind.query_heads;
        const double dlse = gradient(g, GRADIENT_DLSE, b, h, i, 0), lse = input(g, TENSOR_LSE, b, h, i, 0);
        const double sink = exp(input(g, TENSOR_SINKS, 0, h, 0, 0) - lse);
        struct sum found = { 0, 0 }, wanted = { 0, 0 };
        sum_add(&wanted, dlse * (1 - sink));
        for (int64_t c = 0; c < kind.head_dim_v; ++c) {
            sum_add(&wanted, sink * gradient(g, GRADIENT_DOUT, b, h, i, c) * input(g, TENSOR_OUT, b, h, i, c));
        }
        for (int64_t j = 0; j < kind.key_len; ++j) {
            sum_add(&found, gradient(g, GRADIENT_DBIAS, b, h, i, j));
            sum_add(&all, gradient(g, GRADIENT_DBIAS, b, h, i, j));
        }
        sum_add(&all_dlse, dlse);
        good &= sum_near(found, wanted);
    }
    kind_report(strategy, "sum of a row's dS", good);
    for (int64_t h = 0; h < kind.query_heads; ++h) {
        sum_add(&all, gradient(g, GRADIENT_DSINKS, 0, h, 0, 0));
    }
    kind_report(strategy, "sum of all dbias and dsinks", sum_near(all, all_dlse));
}

/* dslopes = - sum dS |i + offset - j|, of dbias. */
static void check_slopes(const char *strategy, const struct gradient_call *g)
{
    int good = 1;
    for (int64_t head = 0; head < kind.batch * kind.query_heads; ++head) {
        const int64_t h = head % kind.query_heads, b = head / kind.query_heads;
        const int64_t length = (int64_t)test_call_get(&g->test, TENSOR_KEY_LENGTHS, 0, 0, 0, b);
        const double found = gradient(g, GRADIENT_DSLOPES, b, h, 0, 0);
        struct sum wanted = { 0, 0 };
        for (int64_t at = 0; at < kind.query_len * length; ++at) {
            const int64_t i = at / length, j = at % length;
            sum_add(&wanted,
                    -gradient(g, GRADIENT_DBIAS, b, h, i, j) * fabs((double)(i + length - kind.query_len - j)));
        }
        good &= sum_near((struct sum){ found, fabs(found) }, wanted);
    }
    kind_report(strategy, "dslopes of dbias", good);
}

/* sum query . dquery = sum key . dkey, all of them scale * dscale; sum value . dvalue = sum dout . out. */
static void check_products(const char *strategy, const struct gradient_call *g)
{
    const int64_t group = kind.query_heads / kind.kv_heads;
    const double dscale = g->test.values.scale * gradient(g, GRADIENT_DSCALE, 0, 0, 0, 0);
    struct sum all = { 0, 0 };
    int of_scores = 1, of_values = 1;
    for (int64_t b = 0; b < kind.batch; ++b) {
        for (int64_t kv_head = 0; kv_head < kind.kv_heads; ++kv_head) {
            struct sum query = { 0, 0 }, key = { 0, 0 }, value = { 0, 0 }, out = { 0, 0 };
            for (int64_t at = 0; at < group * kind.query_len; ++at) {
                const int64_t h = kv_head * group + at / kind.query_len, i = at % kind.query_len;
                add_row(g, GRADIENT_DQUERY, TENSOR_QUERY, b, h, i, &query);
                add_row(g, GRADIENT_DOUT, TENSOR_OUT, b, h, i, &out);
            }
            for (int64_t j = 0; j < kind.key_len; ++j) {
                add_row(g, GRADIENT_DKEY, TENSOR_KEY, b, kv_head, j, &key);
                add_row(g, GRADIENT_DVALUE, TENSOR_VALUE, b, kv_head, j, &value);
            }
            of_scores &= sum_near(query, key);
            of_values &= sum_near(value, out);
            all.sum += query.sum;
            all.size += query.size;
        }
    }
    kind_report(strategy, "query . dquery and key . dkey", of_scores);
    kind_report(strategy, "value . dvalue and dout . out", of_values);
    kind_report(strategy, "dscale", sum_near(all, (struct sum){ dscale, fabs(dscale) }));
}

/* Gradients of dout and dlse, of others, and of the sums of both. */
static void check_additive(const char *strategy, struct gradient_call *g)
{
    struct gradient_call other, both;
    struct random random = random_start(11, 3);
    int good = begin_everything(&other, strategy) && begin_everything(&both, strategy);
    for (int id = GRADIENT_DOUT; id <= GRADIENT_DLSE && good; ++id) {
        const float *first = (const float *)(const void *)g->arrays[id].data;
        float *second = (float *)(void *)other.arrays[id].data, *sum = (float *)(void *)both.arrays[id].data;
        gradient_call_fill(&other, id, &random, kind_normal, NULL);
        for (int64_t at = 0; at < both.arrays[id].count; ++at) {
            sum[at] = first[at] + second[at];
        }
    }
    good = good && gradient_call_run(kind_context, &other, 0) == CLATTN_OK &&
           gradient_call_run(kind_context, &both, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        int same = good;
        for (int64_t at = 0; at < both.arrays[id].count && same; ++at) {
            const float x = ((float *)(void *)g->arrays[id].data)[at], y = ((float *)(void *)other.arrays[id].data)[at];
            const float sum = ((float *)(void *)both.arrays[id].data)[at];
            same =
                sum_near((struct sum){ (double)x + (double)y, fabsf(x) + fabsf(y) }, (struct sum){ sum, fabsf(sum) });
        }
        kind_report(strategy, "gradients add up over dout and dlse", same);
    }
    gradient_call_free(&other);
    gradient_call_free(&both);
}

static void check_everything(const char *strategy)
{
    struct gradient_call g;
    const int good = begin_everything(&g, strategy) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    kind_report(strategy, "everything at once", good);
    if (good) {
        check_rows_of_scores(strategy, &g);
        check_slopes(strategy, &g);
        check_products(strategy, &g);
        check_additive(strategy, &g);
    }
    gradient_call_free(&g);
}

/* ---- a problem with nothing ------------------------------------------------------------------- */

/* Each column: sum_j dvalue = sum dout, sum_j dkey = scale sum dlse query. */
static void check_columns(const char *strategy, const struct gradient_call *g)
{
    const int64_t group = kind.query_heads / kind.kv_heads;
    const double scale = 1 / sqrt((double)kind.head_dim);
    int of_values = 1, of_keys = 1;
    for (int64_t n = 0; n < kind.batch * kind.kv_heads * kind.head_dim; ++n) {
        const int64_t c = n % kind.head_dim, b = n / kind.head_dim / kind.kv_heads,
                      kv_head = n / kind.head_dim % kind.kv_heads;
        const int has_value = c < kind.head_dim_v;
        struct sum dvalue = { 0, 0 }, dkey = { 0, 0 }, dout = { 0, 0 }, query = { 0, 0 };
        for (int64_t j = 0; j < kind.key_len; ++j) {
            sum_add(&dkey, gradient(g, GRADIENT_DKEY, b, kv_head, j, c));
            sum_add(&dvalue, has_value ? gradient(g, GRADIENT_DVALUE, b, kv_head, j, c) : 0);
        }
        for (int64_t at = 0; at < group * kind.query_len; ++at) {
            const int64_t h = kv_head * group + at / kind.query_len, i = at % kind.query_len;
            const double dlse = gradient(g, GRADIENT_DLSE, b, h, i, 0);
            sum_add(&query, scale * dlse * input(g, TENSOR_QUERY, b, h, i, c));
            sum_add(&dout, has_value ? gradient(g, GRADIENT_DOUT, b, h, i, c) : 0);
        }
        of_values &= sum_near(dvalue, dout);
        of_keys &= sum_near(dkey, query);
    }
    kind_report(strategy, "sum of dvalue", of_values);
    kind_report(strategy, "sum of dkey", of_keys);
}

/* By the forward pass on the device: dvalue = weights^T dout, and with dout 0, dquery = scale dlse (weights key). */
static void check_by_forward(const char *strategy, struct gradient_call *g)
{
    const double scale = 1 / sqrt((double)kind.head_dim);
    clattn_problem p = kind_problem(&kind);
    struct test_call forward;
    p.weights = CLATTN_WEIGHTS_SOFTMAX;
    test_call_start(&forward, &p);
    test_call_place_all(&forward);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        memcpy(forward.arrays[id].data, g->test.arrays[id].data,
               (size_t)forward.arrays[id].count * forward.arrays[id].element_bytes);
    }
    const int ran = clattn_forward_host(kind_context, &forward.problem, &forward.values, &forward.tensors) == CLATTN_OK;
    int good = ran;
    for (int64_t n = 0; n < kind.kv_heads * kind.key_len * kind.head_dim_v && good; ++n) {
        const int64_t c = n % kind.head_dim_v, j = n / kind.head_dim_v % kind.key_len,
                      kv_head = n / kind.head_dim_v / kind.key_len;
        const double found = gradient(g, GRADIENT_DVALUE, 1, kv_head, j, c);
        struct sum wanted = { 0, 0 };
        for (int64_t at = 0; at < kind.query_heads / kind.kv_heads * kind.query_len; ++at) {
            const int64_t h = kv_head * (kind.query_heads / kind.kv_heads) + at / kind.query_len;
            const int64_t i = at % kind.query_len;
            sum_add(&wanted,
                    test_call_get(&forward, TENSOR_WEIGHTS, 1, h, i, j) * gradient(g, GRADIENT_DOUT, 1, h, i, c));
        }
        good = sum_near((struct sum){ found, fabs(found) }, wanted);
    }
    kind_report(strategy, "dvalue by the forward pass's weights", good);
    scale_array(&g->arrays[GRADIENT_DOUT], 0);
    good = ran && gradient_call_run(kind_context, g, 0) == CLATTN_OK;
    for (int64_t n = 0; n < kind.query_heads * kind.query_len * kind.head_dim && good; ++n) {
        const int64_t c = n % kind.head_dim, i = n / kind.head_dim % kind.query_len,
                      h = n / kind.head_dim / kind.query_len;
        const double found = gradient(g, GRADIENT_DQUERY, 1, h, i, c);
        struct sum wanted = { 0, 0 };
        for (int64_t j = 0; j < kind.key_len; ++j) {
            sum_add(&wanted, scale * gradient(g, GRADIENT_DLSE, 1, h, i, 0) *
                                 test_call_get(&forward, TENSOR_WEIGHTS, 1, h, i, j) *
                                 input(g, TENSOR_KEY, 1, h / 2, j, c));
        }
        good = sum_near((struct sum){ found, fabs(found) }, wanted);
    }
    kind_report(strategy, "dquery of dlse by the forward pass's weights", good);
    test_call_free(&forward);
}

static void check_nothing(const char *strategy)
{
    const clattn_problem p = kind_problem(&kind);
    struct gradient_call g;
    kind_begin(&g, &p, strategy, kind_normal);
    g.problem.features = CLATTN_WITH_DLSE;
    const int good = kind_finish(&g, kind_normal) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    kind_report(strategy, "nothing but queries, keys and values", good);
    if (good) {
        check_columns(strategy, &g);
        check_by_forward(strategy, &g);
    }
    gradient_call_free(&g);
}

static void check_strategy(const char *strategy)
{
    check_everything(strategy);
    check_nothing(strategy);
}

int main(int argc, char **argv)
{
    return kind_main(argc, argv, 0, check_strategy);
}
