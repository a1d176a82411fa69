/* usage: two_ways [--strategy S]
 *
 * Gradients of problems that can be put in two ways, which must be the same within rounding, for each strategy: masks
 * and the rules that they are of, a batch and packed sequences, heads that share keys and keys that are there twice,
 * keys in another order, a softcap out of reach, slopes and their bias, keys in parts with the whole's lse and with
 * their own. And float64 against differences of the forward pass. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "kinds.h"

static const struct kind kind = { "two ways", 2, 4, 2, 37, 200, 20, 12, 0, 0 };

static int run(struct gradient_call *g)
{
    return kind_finish(g, kind_normal) && gradient_call_run(kind_context, g, 0) == CLATTN_OK;
}

static float *numbers(struct test_array *array)
{
    return (float *)(void *)array->data;
}

/* ---- masks, softcap, slopes ------------------------------------------------------------------- */

/* Causal, a window and key lengths, or a mask that hides the same. */
static void check_mask(const char *strategy)
{
    clattn_problem rules = kind_problem(&kind), masked = kind_problem(&kind);
    struct gradient_call a, b;
    rules.causal = 1;
    rules.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    rules.window_left = 60;
    rules.always_visible_keys = 3;
    rules.features |= CLATTN_WITH_KEY_LENGTHS;
    masked.features |= CLATTN_WITH_MASK;
    kind_begin(&a, &rules, strategy, kind_normal);
    kind_begin(&b, &masked, strategy, kind_normal);
    for (int64_t n = 0; n < kind.batch * kind.query_heads * kind.query_len * kind.key_len; ++n) {
        const int64_t j = n % kind.key_len, row = n / kind.key_len, i = row % kind.query_len;
        const int64_t head = row / kind.query_len, entry = head / kind.query_heads;
        const int64_t length = kind.key_len - (entry == 0 ? 0 : 9), at = i + length - kind.query_len;
        test_call_set(&b.test, TENSOR_MASK, entry, head % kind.query_heads, i, j,
                      j <= at && (j >= at - 60 || j < 3) && j < length);
    }
    kind_report(strategy, "rules and their mask", run(&a) && run(&b) && kind_same(&a, &b));
    gradient_call_free(&a);
    gradient_call_free(&b);
}

/* A batch, or packed sequences of a row each: of one head, so that both lie alike. */
static void check_packed_rows(const char *strategy)
{
    static const struct kind rows = { "rows", 3, 1, 1, 1, 40, 20, 12, 0, 0 };
    clattn_problem p = kind_problem(&rows);
    struct gradient_call a, b;
    kind_begin(&a, &p, strategy, kind_normal);
    p.features |= CLATTN_WITH_VARLEN;
    kind_begin(&b, &p, strategy, kind_normal);
    kind_report(strategy, "a batch and packed sequences of a row each", run(&a) && run(&b) && kind_same(&a, &b));
    gradient_call_free(&a);
    gradient_call_free(&b);
}

static void check_softcap(const char *strategy)
{
    clattn_problem p = kind_problem(&kind);
    struct gradient_call a, b;
    kind_begin(&a, &p, strategy, kind_normal);
    p.softcap = 1e6;
    kind_begin(&b, &p, strategy, kind_normal);
    kind_report(strategy, "a softcap out of reach", run(&a) && run(&b) && kind_same(&a, &b));
    gradient_call_free(&a);
    gradient_call_free(&b);
}

static void check_slopes(const char *strategy)
{
    clattn_problem sloped = kind_problem(&kind), biased = kind_problem(&kind);
    struct gradient_call a, b;
    sloped.features |= CLATTN_WITH_SLOPES;
    sloped.alignment = CLATTN_ALIGN_TOP_LEFT;
    biased.bias_type = CLATTN_FLOAT32;
    kind_begin(&a, &sloped, strategy, kind_normal);
    kind_begin(&b, &biased, strategy, kind_normal);
    for (int64_t n = 0; n < kind.batch * kind.query_heads * kind.query_len * kind.key_len; ++n) {
        const int64_t j = n % kind.key_len, row = n / kind.key_len, i = row % kind.query_len;
        const int64_t head = row / kind.query_len, entry = head / kind.query_heads, h = head % kind.query_heads;
        const double slope = 0.125 * (double)(h + 1);
        test_call_set(&a.test, TENSOR_SLOPES, entry, h, 0, 0, slope);
        test_call_set(&b.test, TENSOR_BIAS, entry, h, i, j, -slope * (double)llabs(i - j));
    }
    kind_report(strategy, "slopes and their bias", run(&a) && run(&b) && kind_same(&a, &b));
    gradient_call_free(&a);
    gradient_call_free(&b);
}

/* ---- heads and keys --------------------------------------------------------------------------- */

/* Each query head with keys and values of its own, which are copies: their gradients add up. */
static void check_heads(const char *strategy)
{
    struct kind apart = kind;
    struct gradient_call a, b;
    apart.kv_heads = kind.query_heads;
    const clattn_problem shared = kind_problem(&kind), copied = kind_problem(&apart);
    const int64_t group = kind.query_heads / kind.kv_heads;
    kind_begin(&a, &shared, strategy, kind_normal);
    kind_begin(&b, &copied, strategy, kind_normal);
    int good = 1;
    for (int id = TENSOR_KEY; id <= TENSOR_VALUE; ++id) {
        const int64_t head = kind.key_len * (id == TENSOR_KEY ? kind.head_dim : kind.head_dim_v);
        for (int64_t h = 0; h < kind.batch * kind.query_heads; ++h) {
            memcpy(numbers(&b.test.arrays[id]) + h * head, numbers(&a.test.arrays[id]) + h / group * head,
                   (size_t)head * sizeof(float));
        }
    }
    good = run(&a) && run(&b);
    for (int id = GRADIENT_DKEY; id <= GRADIENT_DVALUE && good; ++id) {
        const int64_t head = kind.key_len * (id == GRADIENT_DKEY ? kind.head_dim : kind.head_dim_v);
        for (int64_t at = 0; at < a.arrays[id].count && good; ++at) {
            const float *copies = numbers(&b.arrays[id]) + at / head * group * head + at % head;
            const double found = numbers(&a.arrays[id])[at];
            good = sum_near((struct sum){ found, fabs(found) }, (struct sum){ (double)copies[0] + (double)copies[head],
                                                                              fabsf(copies[0]) + fabsf(copies[head]) });
        }
    }
    kind_report(strategy, "shared keys and copies of them",
                good && memcmp(a.test.arrays[TENSOR_QUERY].data, b.test.arrays[TENSOR_QUERY].data, 64) == 0);
    gradient_call_free(&a);
    gradient_call_free(&b);
}

/* Keys and values from the last to the first. */
static void check_order(const char *strategy)
{
    const clattn_problem p = kind_problem(&kind);
    const enum tensor_id inputs[] = { TENSOR_KEY, TENSOR_VALUE };
    const int gradients[] = { GRADIENT_DKEY, GRADIENT_DVALUE };
    const int64_t heads = kind.batch * kind.kv_heads;
    struct gradient_call a, b;
    kind_begin(&a, &p, strategy, kind_normal);
    kind_begin(&b, &p, strategy, kind_normal);
    int good = run(&a);
    for (int turn = 0; turn < 2; ++turn) { /* forth, and what came of it back */
        for (int n = 0; n < 2 && good; ++n) {
            struct test_array *array = turn ? &b.arrays[gradients[n]] : &b.test.arrays[inputs[n]];
            const int64_t columns = n == 0 ? kind.head_dim : kind.head_dim_v;
            for (int64_t at = 0; at < heads * (kind.key_len / 2) * columns; ++at) {
                const int64_t c = at % columns, j = at / columns % (kind.key_len / 2),
                              head = at / columns / (kind.key_len / 2) * kind.key_len;
                float *x = numbers(array) + (head + j) * columns + c;
                float *y = numbers(array) + (head + kind.key_len - 1 - j) * columns + c;
                const float kept = *x;
                *x = *y;
                *y = kept;
            }
        }
        good = good && (turn || run(&b));
    }
    kind_report(strategy, "keys in the opposite order", good && kind_same(&a, &b));
    gradient_call_free(&a);
    gradient_call_free(&b);
}

/* ---- keys in parts ---------------------------------------------------------------------------- */

static const struct kind whole_kind = { "parts", 1, 2, 1, 50, 200, 20, 12, 0, 0 };
#define PARTS 2

/* dout, dlse of a part that has an out and lse of its own, of those of the merged whole: with w = exp(lse_part - lse),
 * out = sum of w out_part. */
static void derive_of_merge(const struct gradient_call *whole, struct gradient_call *part)
{
    for (int64_t row = 0; row < whole_kind.query_heads * whole_kind.query_len; ++row) {
        const int64_t h = row / whole_kind.query_len, i = row % whole_kind.query_len;
        const double w = exp(test_call_get(&part->test, TENSOR_LSE, 0, h, i, 0) -
                             test_call_get(&whole->test, TENSOR_LSE, 0, h, i, 0));
        double dlse = gradient_call_get(whole, GRADIENT_DLSE, 0, h, i, 0);
        for (int64_t c = 0; c < whole_kind.head_dim_v; ++c) {
            const double dout = gradient_call_get(whole, GRADIENT_DOUT, 0, h, i, c);
            dlse += dout * (test_call_get(&part->test, TENSOR_OUT, 0, h, i, c) -
                            test_call_get(&whole->test, TENSOR_OUT, 0, h, i, c));
            gradient_call_set(part, GRADIENT_DOUT, 0, h, i, c, w * dout);
        }
        gradient_call_set(part, GRADIENT_DLSE, 0, h, i, 0, w * dlse);
    }
}

/* One half of the keys, with the whole's out and lse as on a ring of devices, or with its own as before a merge. */
static int run_part(const char *strategy, const struct gradient_call *whole, int n, int own, struct gradient_call *part)
{
    struct kind half = whole_kind;
    half.key_len /= PARTS;
    const clattn_problem p = kind_problem(&half);
    kind_begin(part, &p, strategy, kind_normal);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        const struct test_array *from = &whole->test.arrays[id];
        struct test_array *to = &part->test.arrays[id];
        const size_t bytes = (size_t)to->count * sizeof(float);
        memcpy(to->data, from->data + (id == TENSOR_QUERY ? 0 : (size_t)n * bytes), bytes);
    }
    part->problem.features = CLATTN_WITH_DLSE;
    if (!kind_finish(part, kind_normal)) {
        return 0;
    }
    if (own) {
        derive_of_merge(whole, part);
    } else {
        for (int id = TENSOR_OUT; id <= TENSOR_LSE; ++id) {
            const struct test_array *from = &whole->test.arrays[id];
            if (id == TENSOR_OUT || id == TENSOR_LSE) {
                memcpy(part->test.arrays[id].data, from->data, (size_t)from->count * sizeof(float));
            }
        }
    }
    return gradient_call_run(kind_context, part, 0) == CLATTN_OK;
}

static void check_parts(const char *strategy, int own)
{
    const clattn_problem p = kind_problem(&whole_kind);
    struct gradient_call whole, part;
    kind_begin(&whole, &p, strategy, kind_normal);
    whole.problem.features = CLATTN_WITH_DLSE;
    int good = run(&whole);
    struct sum *dquery = calloc((size_t)whole.arrays[GRADIENT_DQUERY].count, sizeof(*dquery));
    for (int n = 0; n < PARTS && good && dquery; ++n) {
        good = run_part(strategy, &whole, n, own, &part);
        for (int id = GRADIENT_DKEY; id <= GRADIENT_DVALUE && good; ++id) {
            const int64_t count = part.arrays[id].count;
            for (int64_t at = 0; at < count && good; ++at) {
                const double x = numbers(&whole.arrays[id])[n * count + at], y = numbers(&part.arrays[id])[at];
                good = sum_near((struct sum){ x, fabs(x) }, (struct sum){ y, fabs(y) });
            }
        }
        for (int64_t at = 0; at < part.arrays[GRADIENT_DQUERY].count && good; ++at) {
            sum_add(&dquery[at], numbers(&part.arrays[GRADIENT_DQUERY])[at]);
        }
        gradient_call_free(&part);
    }
    for (int64_t at = 0; at < whole.arrays[GRADIENT_DQUERY].count && good && dquery; ++at) {
        const double x = numbers(&whole.arrays[GRADIENT_DQUERY])[at];
        good = sum_near((struct sum){ x, fabs(x) }, dquery[at]);
    }
    kind_report(strategy, own ? "parts of the keys with their own out and lse" : "parts with the whole's out and lse",
                good && dquery);
    free(dquery);
    gradient_call_free(&whole);
}

/* ---- differences of the forward pass ---------------------------------------------------------- */

/* sum of dout * out, computed on the device in float64. 0 in *good after a failure. */
static double loss(struct gradient_call *g, int *good)
{
    const struct test_array *out = &g->test.arrays[TENSOR_OUT];
    double sum = 0;
    *good &= clattn_forward_host(kind_context, &g->test.problem, &g->test.values, &g->test.tensors) == CLATTN_OK;
    for (int64_t at = 0; at < out->count; ++at) {
        sum += ((double *)(void *)out->data)[at] * ((double *)(void *)g->arrays[GRADIENT_DOUT].data)[at];
    }
    return sum;
}

/* Along a direction of chance in one input at a time. lse is float32, which bounds what can be asked. */
static void check_differences(const char *strategy)
{
    static const enum tensor_id inputs[] = { TENSOR_QUERY, TENSOR_KEY, TENSOR_VALUE, TENSOR_BIAS };
    static const int gradients[] = { GRADIENT_DQUERY, GRADIENT_DKEY, GRADIENT_DVALUE, GRADIENT_DBIAS };
    const double step = 1e-4;
    struct random random = random_start(13, 4);
    clattn_problem p = kind_problem(&kind);
    struct gradient_call g;
    p.type = p.bias_type = CLATTN_FLOAT64;
    p.softcap = 2;
    kind_begin(&g, &p, strategy, kind_normal);
    g.problem.gradients = ALL_THREE | CLATTN_GRADIENT_BIAS;
    g.problem.gradient_type = CLATTN_TYPE_NONE; /* float64, too */
    int good = kind_finish(&g, kind_normal);
    const clattn_status status = good ? gradient_call_run(kind_context, &g, 0) : CLATTN_OK;
    if (status == CLATTN_UNSUPPORTED && strstr(clattn_last_error(), "the device has no float64")) {
        kind_skip(strategy, "differences of the forward pass", clattn_last_error());
        gradient_call_free(&g);
        return;
    }
    good &= status == CLATTN_OK;
    kind_report(strategy, "gradients in float64", good);
    for (int n = 0; n < 4 && good; ++n) {
        struct test_array *array = &g.test.arrays[inputs[n]];
        double *x = (double *)(void *)array->data, *direction = calloc((size_t)array->count, sizeof(double));
        const double *found = (const double *)(const void *)g.arrays[gradients[n]].data;
        struct sum wanted = { 0, 0 }, sides[2] = { { 0, 0 }, { 0, 0 } };
        for (int side = 0; side < 2 && direction; ++side) {
            for (int64_t at = 0; at < array->count; ++at) {
                direction[at] = side ? direction[at] : random_normal(&random);
                x[at] += (side ? -2 : 1) * step * direction[at];
            }
            sides[side].sum = loss(&g, &good) / (2 * step);
        }
        for (int64_t at = 0; at < array->count && direction; ++at) {
            x[at] += step * direction[at];
            sum_add(&wanted, found[at] * direction[at]);
        }
        sides[0].sum -= sides[1].sum;
        kind_report(strategy, "differences of the forward pass", direction && good && sum_near(sides[0], wanted));
        free(direction);
    }
    gradient_call_free(&g);
}

static void check_strategy(const char *strategy)
{
    check_mask(strategy);
    check_packed_rows(strategy);
    check_softcap(strategy);
    check_slopes(strategy);
    check_heads(strategy);
    check_order(strategy);
    check_parts(strategy, 0);
    check_parts(strategy, 1);
    if (strcmp(strategy, "plain") == 0) { /* which takes float64 */
        check_differences(strategy);
    }
}

int main(int argc, char **argv)
{
    return kind_main(argc, argv, 0, check_strategy);
}
