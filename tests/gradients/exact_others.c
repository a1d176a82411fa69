/* What the gradients of biases, slopes, sinks and the scale have to the last bit. */
#include "exact_others.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "kinds.h"

/* An array anew, with those axes summed (a stride of 0) that `summed` has bits of. */
static void place_summed(struct gradient_call *g, int id, unsigned summed)
{
    struct test_layout layout = TEST_LAYOUT_DENSE;
    for (int axis = 0; axis < 4; ++axis) {
        layout.broadcast[axis] = summed >> axis & 1;
    }
    free(g->arrays[id].data);
    free(g->arrays[id].reached);
    gradient_call_place(g, id, &layout);
    gradient_call_keep(g);
}

/* Whether dbias, with these axes summed, is the sum of dlse where the row's key is, and 0 elsewhere. */
static int dbias_is_dlse(struct gradient_call *g, const struct kind *kind, unsigned summed)
{
    struct test_array *array = &g->arrays[GRADIENT_DBIAS];
    int good = 1;
    for (int64_t row = 0; row < kind->batch * kind->query_heads * kind->query_len; ++row) {
        const int64_t i = row % kind->query_len, h = row / kind->query_len % kind->query_heads,
                      b = row / kind->query_len / kind->query_heads;
        if (i < kind->key_len) {
            gradient_call_set(g, GRADIENT_DBIAS, b, h, i, i,
                              gradient_call_get(g, GRADIENT_DBIAS, b, h, i, i) -
                                  gradient_call_get(g, GRADIENT_DLSE, b, h, i, 0));
        }
    }
    for (int64_t at = 0; at < array->count; ++at) {
        good &= kind_get(array, at) == 0;
    }
    return good || !printf("dbias, summed axes 0x%x\n", summed);
}

/* With a bias, which takes the place of values: dbias is dlse where the row's key is, and 0 elsewhere, whichever axes
 * are summed. */
static void check_one_key_of_bias(const char *strategy)
{
    const struct kind kind = { "one key", 2, 4, 2, 150, 140, 20, 12, 0, 0 };
    clattn_problem p = kind_problem(&kind);
    struct gradient_call g;
    p.window_left = p.window_right = 0;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    p.bias_type = CLATTN_FLOAT32;
    kind_begin(&g, &p, strategy, kind_integer);
    kind_scale(&g.test.arrays[TENSOR_QUERY], 0);
    kind_scale(&g.test.arrays[TENSOR_BIAS], 0);
    g.problem.features = CLATTN_WITH_DLSE;
    g.problem.gradients |= CLATTN_GRADIENT_BIAS;
    const int finished = kind_finish(&g, kind_integer);
    for (unsigned summed = 0; summed < 16; ++summed) {
        place_summed(&g, GRADIENT_DBIAS, summed);
        const int ran = finished && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
        kind_report(strategy, "dbias of rows that see one key alone", ran && dbias_is_dlse(&g, &kind, summed));
    }
    gradient_call_free(&g);
}

static int is_of_gpus(const char *strategy)
{
    return strcmp(strategy, "fused_simt") == 0 || strcmp(strategy, "fused_mma") == 0 ||
           strcmp(strategy, "fused_wgmma") == 0;
}

/* The gradients beside the three: all of them, or one alone. GPUs' strategies make them only beside one of those. */
static void begin_others(struct gradient_call *g, const char *strategy, unsigned summed, uint32_t gradients)
{
    const struct kind kind = { "others", 2, 4, 2, 70, 700, 20, 12, 1, CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS };
    const uint32_t all = 0x7f, beside = is_of_gpus(strategy) ? CLATTN_GRADIENT_QUERY : 0;
    clattn_problem p = kind_problem(&kind);
    p.bias_type = CLATTN_FLOAT32;
    p.softcap = 3;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    kind_begin(g, &p, strategy, kind_normal);
    g->problem.gradients = gradients ? gradients | beside : all;
    kind_report(strategy, "others: forward", kind_finish(g, kind_normal));
    for (int id = GRADIENT_DBIAS; id <= GRADIENT_DSINKS; ++id) {
        if (g->arrays[id].data) {
            place_summed(g, id, id == GRADIENT_DBIAS ? summed : 0);
        }
    }
}

/* Their values, and their bits: each alone, with little room, and again. dbias: with axes summed that are so most
 * often. */
static void check_others(const char *strategy, clattn_context *tight)
{
    static const unsigned summed[] = { 0, 1 << 0, 1 << 0 | 1 << 1, 1 << 1 | 1 << 2, 1 << 3 };
    for (size_t k = 0; k < sizeof(summed) / sizeof(summed[0]); ++k) {
        struct gradient_call whole, other;
        begin_others(&whole, strategy, summed[k], 0);
        const int good = gradient_call_run(kind_context, &whole, 0) == CLATTN_OK;
        struct gradient_verdict verdict = { .wrong = 0 };
        const int right = good && kind_check(&whole, &verdict);
        kind_report(strategy, "others: as the reference", right || !printf("%s\n", verdict.first));
        begin_others(&other, strategy, summed[k], 0);
        kind_report(strategy, "others: bits with another workspace limit",
                    good && gradient_call_run(tight, &other, 0) == CLATTN_OK &&
                        gradient_call_hash(&whole) == gradient_call_hash(&other));
        kind_report(strategy, "others: bits of another run",
                    good && gradient_call_run(kind_context, &other, 1) == CLATTN_OK &&
                        gradient_call_hash(&whole) == gradient_call_hash(&other));
        gradient_call_free(&other);
        for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT && (k == 0 || id <= GRADIENT_DBIAS); ++id) {
            begin_others(&other, strategy, summed[k], 1u << (id - GRADIENT_DQUERY));
            const int ran = gradient_call_run(kind_context, &other, 0) == CLATTN_OK;
            kind_report(strategy, "others: bits of one gradient alone",
                        good && ran && kind_same_bits(&whole, &other, id));
            gradient_call_free(&other);
        }
        gradient_call_free(&whole);
    }
}

/* dbias of many heads of few rows and keys, or of few of many, with axes summed: the sums go in parts. */
static void begin_long(struct gradient_call *g, const struct kind *kind, const char *strategy, unsigned summed)
{
    clattn_problem p = kind_problem(kind);
    p.bias_type = CLATTN_FLOAT32;
    kind_begin(g, &p, strategy, kind_normal);
    g->problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_BIAS;
    kind_report(strategy, "long sums: forward", kind_finish(g, kind_normal));
    place_summed(g, GRADIENT_DBIAS, summed);
}

/* dbias of the first entry of a batch alone, where batch entries are not summed. */
static int is_of_slice(const struct gradient_call *whole, const struct kind *kind, const char *strategy,
                       unsigned summed)
{
    struct kind slice = *kind;
    struct gradient_call first;
    slice.batch = 1;
    begin_long(&first, &slice, strategy, summed);
    for (int id = 0; id < BACKWARD_TENSOR_COUNT; ++id) {
        const struct test_array *from = id < ALL_TENSOR_COUNT ? &whole->test.arrays[id] : &whole->arrays[id];
        struct test_array *to = id < ALL_TENSOR_COUNT ? &first.test.arrays[id] : &first.arrays[id];
        if (to->data && id <= GRADIENT_DOUT) {
            memcpy(to->data, from->data, (size_t)to->count * to->element_bytes);
        }
    }
    const struct test_array *found = &first.arrays[GRADIENT_DBIAS];
    const int good = gradient_call_run(kind_context, &first, 0) == CLATTN_OK &&
                     memcmp(found->data, whole->arrays[GRADIENT_DBIAS].data, (size_t)found->count * sizeof(float)) == 0;
    gradient_call_free(&first);
    return good;
}

static void check_long_sums(const char *strategy, clattn_context *tight)
{
    static const struct kind kinds[] = { { "many heads", 9, 16, 8, 40, 50, 20, 12, 0, 0 },
                                         { "many rows", 2, 2, 1, 600, 530, 8, 8, 1, 0 } };
    static const unsigned summed[] = { 2, 3, 7, 10, 14, 15 };
    for (size_t n = 0; n < 2 * sizeof(summed) / sizeof(summed[0]); ++n) {
        const struct kind *kind = &kinds[n & 1];
        struct gradient_verdict verdict = { .wrong = 0 };
        struct gradient_call whole, other;
        begin_long(&whole, kind, strategy, summed[n / 2]);
        const int good = gradient_call_run(kind_context, &whole, 0) == CLATTN_OK;
        const int right = good && kind_check(&whole, &verdict);
        kind_report(strategy, "long sums: as the reference", right || !printf("%s\n", verdict.first));
        begin_long(&other, kind, strategy, summed[n / 2]);
        kind_report(strategy, "long sums: bits with another workspace limit",
                    good && gradient_call_run(tight, &other, 0) == CLATTN_OK &&
                        kind_same_bits(&whole, &other, GRADIENT_DBIAS));
        kind_report(strategy, "long sums: bits of another run",
                    good && gradient_call_run(kind_context, &other, 1) == CLATTN_OK &&
                        kind_same_bits(&whole, &other, GRADIENT_DBIAS));
        if (!(summed[n / 2] & 1)) {
            kind_report(strategy, "long sums: bits of a slice of the batch",
                        good && is_of_slice(&whole, kind, strategy, summed[n / 2]));
        }
        gradient_call_free(&other);
        gradient_call_free(&whole);
    }
}

/* A key that the row attends with a weight of 0, since their logit is -inf: 0 times that is NaN, whatever the zero's
 * sign, in dscale as in dquery. As many keys as cut no block. */
static void check_attended_infinity(const char *strategy)
{
    const struct kind kind = { "infinity", 1, 1, 1, 1, 512, 20, 12, 0, 0 };
    for (int sign = -1; sign <= 1; sign += 2) {
        const clattn_problem p = kind_problem(&kind);
        struct gradient_verdict verdict = { .wrong = 0 };
        struct gradient_call g;
        kind_begin(&g, &p, strategy, kind_normal);
        test_call_set(&g.test, TENSOR_QUERY, 0, 0, 0, 0, 1);
        test_call_set(&g.test, TENSOR_KEY, 0, 0, 300, 0, -INFINITY);
        for (int64_t c = 0; c < kind.head_dim_v; ++c) {
            test_call_set(&g.test, TENSOR_VALUE, 0, 0, 300, c, 8 * sign);
        }
        int good = kind_finish(&g, kind_normal);
        for (int64_t c = 0; c < kind.head_dim_v; ++c) {
            gradient_call_set(&g, GRADIENT_DOUT, 0, 0, 0, c, 1);
        }
        good = good && gradient_call_run(kind_context, &g, 0) == CLATTN_OK && kind_check(&g, &verdict) &&
               isnan(kind_get(&g.arrays[GRADIENT_DSCALE], 0));
        kind_report(strategy, "an infinity that is attended", good);
        gradient_call_free(&g);
    }
}

void exact_others(const char *strategy, clattn_context *tight)
{
    check_attended_infinity(strategy);
    check_long_sums(strategy, tight);
    check_one_key_of_bias(strategy);
    check_others(strategy, tight);
}
