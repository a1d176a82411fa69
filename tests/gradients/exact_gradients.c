/* usage: exact_gradients [--strategy S]
 *
 * What gradients have to the last bit, for each strategy: independence of batch, workspace limit and of the other
 * gradients, scaling by powers of two, signs, NaN and keys that nobody sees, zeros, rows in another order, and rows
 * that see one key alone. Biases and what has few elements: exact_others.c; problems without elements:
 * exact_empty.c; within rounding, where tiles are partly seen: exact_places.c. Others that they have within rounding:
 * identities.c and two_ways.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "exact_others.h"
#include "kinds.h"
#include "support/device_options.h"

static clattn_context *tight; /* with room for nearly nothing */

/* ---- problems ------------------------------------------------------------------------------- */

static const struct kind kinds[] = {
    { "splits", 2, 4, 2, 70, 700, 20, 12, 0, 0 },
    { "rectangles", 2, 2, 1, 2100, 70, 8, 8, 1, CLATTN_WITH_KEY_LENGTHS },
};

/* On a CPU the kernels of GPUs take minutes for those: without CLATTN_TEST_LONG they have this one, and no others
 * beside it. No mutant needs more of them. */
static const struct kind few_kind = { "few", 2, 4, 2, 70, 140, 20, 12, 0, 0 };

static int has_few(const char *strategy)
{
    const int is_of_gpus = strcmp(strategy, "fused_mma") == 0 || strcmp(strategy, "fused_wgmma") == 0 ||
                           strcmp(strategy, "fused_simt") == 0;
    return is_of_gpus && !getenv("CLATTN_TEST_LONG");
}

static void begin(struct gradient_call *g, const struct kind *kind, const char *strategy, test_value *value)
{
    const clattn_problem problem = kind_problem(kind);
    kind_begin(g, &problem, strategy, value);
}

/* As much of an array as the other has. */
static void copy_first(struct test_array *to, const struct test_array *from)
{
    memcpy(to->data, from->data, (size_t)to->count * to->element_bytes);
}

/* ---- properties ----------------------------------------------------------------------------- */

/* Gradients with little room, again, and each by itself; then those of the first batch entry alone. */
static void check_independence(const char *strategy, const struct kind *kind)
{
    struct gradient_call whole, other;
    begin(&whole, kind, strategy, kind_normal);
    int good = kind_finish(&whole, kind_normal) && gradient_call_run(kind_context, &whole, 0) == CLATTN_OK;
    begin(&other, kind, strategy, kind_normal);
    good = good && kind_finish(&other, kind_normal) && gradient_call_run(tight, &other, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        kind_report(strategy, "bits with another workspace limit",
                    good && (!whole.arrays[id].data || kind_same_bits(&whole, &other, id)));
    }
    good = good && gradient_call_run(kind_context, &other, 1) == CLATTN_OK;
    kind_report(strategy, "bits of another run", good && gradient_call_hash(&whole) == gradient_call_hash(&other));
    gradient_call_free(&other);
    for (uint32_t gradient = CLATTN_GRADIENT_QUERY; gradient <= CLATTN_GRADIENT_VALUE; gradient <<= 1) {
        const int id = gradient == CLATTN_GRADIENT_QUERY ? GRADIENT_DQUERY
                       : gradient == CLATTN_GRADIENT_KEY ? GRADIENT_DKEY
                                                         : GRADIENT_DVALUE;
        begin(&other, kind, strategy, kind_normal);
        other.problem.gradients = gradient;
        const int ran = kind_finish(&other, kind_normal) && gradient_call_run(kind_context, &other, 0) == CLATTN_OK;
        kind_report(strategy, "bits of one gradient alone", good && ran && kind_same_bits(&whole, &other, id));
        gradient_call_free(&other);
    }
    struct kind slice = *kind;
    slice.batch = 1; /* the same random numbers come first */
    slice.features &= ~(uint32_t)CLATTN_WITH_KEY_LENGTHS;
    begin(&other, &slice, strategy, kind_normal);
    int ran = kind_finish(&other, kind_normal);
    /* dout of the slice is the first of the whole's, keys and values are not: they come later */
    copy_first(&other.test.arrays[TENSOR_KEY], &whole.test.arrays[TENSOR_KEY]);
    copy_first(&other.test.arrays[TENSOR_VALUE], &whole.test.arrays[TENSOR_VALUE]);
    copy_first(&other.test.arrays[TENSOR_OUT], &whole.test.arrays[TENSOR_OUT]);
    copy_first(&other.test.arrays[TENSOR_LSE], &whole.test.arrays[TENSOR_LSE]);
    ran = ran && gradient_call_run(kind_context, &other, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        kind_report(strategy, "bits of a slice of the batch",
                    good && ran &&
                        memcmp(other.arrays[id].data, whole.arrays[id].data,
                               (size_t)other.arrays[id].count * sizeof(float)) == 0);
    }
    gradient_call_free(&other);
    gradient_call_free(&whole);
}

/* dout * 2^k: all * 2^k. query * 2^k, key * 2^-k: dquery * 2^-k, dkey * 2^k. dout = 0: all +0. */
static void check_scaling(const char *strategy, const struct kind *kind)
{
    struct gradient_call plain, scaled;
    begin(&plain, kind, strategy, kind_normal);
    int good = kind_finish(&plain, kind_normal) && gradient_call_run(kind_context, &plain, 0) == CLATTN_OK;
    begin(&scaled, kind, strategy, kind_normal);
    good = good && kind_finish(&scaled, kind_normal);
    kind_scale(&scaled.arrays[GRADIENT_DOUT], 16);
    good = good && gradient_call_run(kind_context, &scaled, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        kind_scale(&scaled.arrays[id], 1.0 / 16);
        kind_report(strategy, "dout times 16", good && kind_same_bits(&plain, &scaled, id));
    }
    kind_scale(&scaled.arrays[GRADIENT_DOUT], 1.0 / 16);
    kind_scale(&scaled.test.arrays[TENSOR_QUERY], 8);
    kind_scale(&scaled.test.arrays[TENSOR_KEY], 1.0 / 8);
    good = good && gradient_call_run(kind_context, &scaled, 0) == CLATTN_OK;
    kind_scale(&scaled.arrays[GRADIENT_DQUERY], 8);
    kind_scale(&scaled.arrays[GRADIENT_DKEY], 1.0 / 8);
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        kind_report(strategy, "query times 8, key by 8", good && kind_same_bits(&plain, &scaled, id));
    }
    kind_scale(&scaled.arrays[GRADIENT_DOUT], 0);
    for (int64_t i = 0; i < scaled.arrays[GRADIENT_DOUT].count; ++i) {
        kind_set(&scaled.arrays[GRADIENT_DOUT], i, 0);
    }
    good = good && gradient_call_run(kind_context, &scaled, 0) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        double sum = 0;
        for (int64_t i = 0; scaled.arrays[id].data && i < scaled.arrays[id].count; ++i) {
            sum += fabs(kind_get(&scaled.arrays[id], i));
        }
        kind_report(strategy, "dout 0", good && sum == 0);
    }
    gradient_call_free(&scaled);
    gradient_call_free(&plain);
}

/* Each row sees one key by a window, queries are 0: p = 1. Then dvalue is the sum of its rows' dout, and dquery is
 * scale * dlse * key, all in integers. */
static void check_one_key(const char *strategy)
{
    const struct kind kind = { "one key", 2, 4, 2, 90, 80, 20, 12, 0, 0 };
    struct gradient_call g;
    begin(&g, &kind, strategy, kind_integer);
    g.test.problem.window_left = g.test.problem.window_right = 0;
    g.test.problem.alignment = CLATTN_ALIGN_TOP_LEFT;
    g.test.values.has_scale = 1;
    g.test.values.scale = 2;
    for (int64_t i = 0; i < g.test.arrays[TENSOR_QUERY].count; ++i) {
        kind_set(&g.test.arrays[TENSOR_QUERY], i, 0);
    }
    g.problem.features = CLATTN_WITH_DLSE;
    int good = kind_finish(&g, kind_integer) && gradient_call_run(kind_context, &g, 0) == CLATTN_OK;
    for (int64_t at = 0; at < kind.batch * kind.query_heads * kind.query_len && good; ++at) {
        const int64_t i = at % kind.query_len, h = at / kind.query_len % kind.query_heads,
                      b = at / kind.query_len / kind.query_heads;
        const double dlse = gradient_call_get(&g, GRADIENT_DLSE, b, h, i, 0);
        for (int64_t c = 0; c < kind.head_dim; ++c) {
            const double key = i < kind.key_len ? test_call_get(&g.test, TENSOR_KEY, b, h / 2, i, c) : 0;
            good &= gradient_call_get(&g, GRADIENT_DQUERY, b, h, i, c) == 2 * dlse * key;
        }
        for (int64_t c = 0; c < kind.head_dim_v && i < kind.key_len; ++c) {
            good &= gradient_call_get(&g, GRADIENT_DVALUE, b, h / 2, i, c) ==
                    gradient_call_get(&g, GRADIENT_DOUT, b, h / 2 * 2, i, c) +
                        gradient_call_get(&g, GRADIENT_DOUT, b, h / 2 * 2 + 1, i, c);
        }
    }
    kind_report(strategy, "rows that see one key alone", good);
    gradient_call_free(&g);
}

static void flip_column(struct test_array *array, int64_t columns, int64_t c)
{
    for (int64_t at = c; at < array->count; at += columns) {
        kind_set(array, at, -kind_get(array, at));
    }
}

/* The sign of a column of query and key: that of dquery and dkey. value * 8, dout / 8: dvalue / 8, the rest as it was.
 * Rows in the opposite order: dquery too. */
static void check_other_inputs(const char *strategy, const struct kind *kind)
{
    struct gradient_call plain, other;
    begin(&plain, kind, strategy, kind_normal);
    int good = kind_finish(&plain, kind_normal) && gradient_call_run(kind_context, &plain, 0) == CLATTN_OK;
    begin(&other, kind, strategy, kind_normal);
    good = good && kind_finish(&other, kind_normal);
    flip_column(&other.test.arrays[TENSOR_QUERY], kind->head_dim, 3);
    flip_column(&other.test.arrays[TENSOR_KEY], kind->head_dim, 3);
    good = good && gradient_call_run(kind_context, &other, 0) == CLATTN_OK;
    flip_column(&other.arrays[GRADIENT_DQUERY], kind->head_dim, 3);
    flip_column(&other.arrays[GRADIENT_DKEY], kind->head_dim, 3);
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        kind_report(strategy, "the sign of a column", good && kind_same_bits(&plain, &other, id));
    }
    flip_column(&other.test.arrays[TENSOR_QUERY], kind->head_dim, 3);
    flip_column(&other.test.arrays[TENSOR_KEY], kind->head_dim, 3);
    kind_scale(&other.test.arrays[TENSOR_VALUE], 8);
    kind_scale(&other.test.arrays[TENSOR_OUT], 8);
    kind_scale(&other.arrays[GRADIENT_DOUT], 1.0 / 8);
    good = good && gradient_call_run(kind_context, &other, 0) == CLATTN_OK;
    kind_scale(&other.arrays[GRADIENT_DVALUE], 8);
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        kind_report(strategy, "value times 8, dout by 8", good && kind_same_bits(&plain, &other, id));
    }
    gradient_call_free(&other);
    gradient_call_free(&plain);
}

static void reverse_rows(struct test_array *array, int64_t rows)
{
    const int64_t columns = array->count / rows;
    for (int64_t at = 0; at < rows / 2 * columns; ++at) {
        const int64_t other = (rows - 1 - at / columns) * columns + at % columns;
        const double kept = kind_get(array, at);
        kind_set(array, at, kind_get(array, other));
        kind_set(array, other, kept);
    }
}

static void check_order_of_rows(const char *strategy)
{
    const struct kind kind = { "order", 1, 1, 1, 150, 700, 20, 12, 0, 0 };
    struct gradient_call plain, other;
    begin(&plain, &kind, strategy, kind_normal);
    int good = kind_finish(&plain, kind_normal) && gradient_call_run(kind_context, &plain, 0) == CLATTN_OK;
    begin(&other, &kind, strategy, kind_normal);
    good = good && kind_finish(&other, kind_normal);
    reverse_rows(&other.test.arrays[TENSOR_QUERY], kind.query_len);
    reverse_rows(&other.test.arrays[TENSOR_OUT], kind.query_len);
    reverse_rows(&other.test.arrays[TENSOR_LSE], kind.query_len);
    reverse_rows(&other.arrays[GRADIENT_DOUT], kind.query_len);
    good = good && gradient_call_run(kind_context, &other, 0) == CLATTN_OK;
    reverse_rows(&other.arrays[GRADIENT_DQUERY], kind.query_len);
    kind_report(strategy, "rows in the opposite order", good && kind_same_bits(&plain, &other, GRADIENT_DQUERY));
    gradient_call_free(&other);
    gradient_call_free(&plain);
}

/* 200 keys more, which a mask hides from all: they have 0, the others the bits that they had. */
static void check_appended(const char *strategy)
{
    struct kind kind = { "appended", 1, 2, 1, 70, 500, 20, 12, 0, CLATTN_WITH_MASK };
    struct gradient_call few, many;
    begin(&few, &kind, strategy, kind_normal);
    int good = kind_finish(&few, kind_normal) && gradient_call_run(kind_context, &few, 0) == CLATTN_OK;
    kind.key_len = 700;
    begin(&many, &kind, strategy, kind_normal);
    const size_t bytes = few.test.arrays[TENSOR_KEY].element_bytes;
    memcpy(many.test.arrays[TENSOR_KEY].data, few.test.arrays[TENSOR_KEY].data, 500 * 20 * bytes);
    memcpy(many.test.arrays[TENSOR_VALUE].data, few.test.arrays[TENSOR_VALUE].data, 500 * 12 * bytes);
    for (int64_t at = 0; at < kind.query_heads * kind.query_len * 200; ++at) {
        const int64_t row = at / 200;
        test_call_set(&many.test, TENSOR_MASK, 0, row / kind.query_len, row % kind.query_len, 500 + at % 200, 0);
    }
    good = good && kind_finish(&many, kind_normal) && gradient_call_run(kind_context, &many, 0) == CLATTN_OK;
    double rest = 0;
    for (int64_t at = 0; at < 200 && good; ++at) {
        for (int64_t c = 0; c < kind.head_dim; ++c) {
            rest += fabs(gradient_call_get(&many, GRADIENT_DKEY, 0, 0, 500 + at, c)) +
                    (c < 12 ? fabs(gradient_call_get(&many, GRADIENT_DVALUE, 0, 0, 500 + at, c)) : 0);
        }
    }
    kind_report(strategy, "appended keys that are hidden have 0", good && rest == 0);
    kind_report(
        strategy, "bits of the keys before appended ones",
        good && kind_same_bits(&few, &many, GRADIENT_DQUERY) &&
            memcmp(few.arrays[GRADIENT_DKEY].data, many.arrays[GRADIENT_DKEY].data, 500 * 20 * sizeof(float)) == 0 &&
            memcmp(few.arrays[GRADIENT_DVALUE].data, many.arrays[GRADIENT_DVALUE].data, 500 * 12 * sizeof(float)) == 0);
    gradient_call_free(&many);
    gradient_call_free(&few);
}

static void set_row(struct test_array *array, int64_t columns, int64_t row, float value)
{
    for (int64_t c = 0; c < columns; ++c) {
        kind_set(array, row * columns + c, value);
    }
}

/* Row 5 of the first head sees nothing by the mask, or its lse says so (-inf, as of rows whose keys are elsewhere); key
 * 3 is hidden from all. NaN there changes nothing. */
enum hidden { HIDDEN_CLEAN, HIDDEN_BY_MASK, HIDDEN_BY_LSE, HIDDEN };

static void begin_hidden(struct gradient_call *g, const struct kind *kind, const char *strategy, enum hidden how)
{
    begin(g, kind, strategy, kind_normal);
    for (int64_t at = 0; at < kind->query_heads * kind->query_len * kind->key_len; ++at) {
        const int64_t j = at % kind->key_len, i = at / kind->key_len % kind->query_len,
                      h = at / kind->key_len / kind->query_len;
        test_call_set(&g->test, TENSOR_MASK, 0, h, i, j, !(h == 0 && i == 5 && how != HIDDEN_BY_LSE) && j != 3);
    }
    kind_report(strategy, "hidden: forward", kind_finish(g, kind_normal));
    if (how != HIDDEN_CLEAN) {
        set_row(&g->test.arrays[TENSOR_QUERY], kind->head_dim, 5, NAN);
        set_row(&g->arrays[GRADIENT_DOUT], kind->head_dim_v, 5, NAN);
        set_row(&g->test.arrays[TENSOR_OUT], kind->head_dim_v, 5, NAN);
        set_row(&g->test.arrays[TENSOR_LSE], 1, 5, how == HIDDEN_BY_LSE ? -INFINITY : NAN);
        set_row(&g->test.arrays[TENSOR_KEY], kind->head_dim, 3, NAN);
        set_row(&g->test.arrays[TENSOR_VALUE], kind->head_dim_v, 3, INFINITY);
    }
    kind_report(strategy, "hidden: run", gradient_call_run(kind_context, g, 0) == CLATTN_OK);
}

static void check_hidden(const char *strategy)
{
    const struct kind kind = { "hidden", 1, 2, 1, 40, 150, 20, 12, 0, CLATTN_WITH_MASK };
    static const char *const names[] = { "", "NaN that nobody sees", "NaN of a row whose lse is -inf" };
    struct gradient_call calls[HIDDEN];
    for (enum hidden how = HIDDEN_CLEAN; how < HIDDEN; ++how) {
        begin_hidden(&calls[how], &kind, strategy, how);
    }
    for (enum hidden how = HIDDEN_BY_MASK; how < HIDDEN; ++how) {
        /* Tiles are not used where something is not finite, so that sums have another order. */
        kind_report(strategy, names[how],
                    kind_in_bfloat16() ? kind_same(&calls[0], &calls[how])
                                       : gradient_call_hash(&calls[0]) == gradient_call_hash(&calls[how]));
        double sum = 0;
        for (int64_t c = 0; c < kind.head_dim; ++c) {
            sum += fabs(gradient_call_get(&calls[how], GRADIENT_DKEY, 0, 0, 3, c)) +
                   fabs(gradient_call_get(&calls[how], GRADIENT_DQUERY, 0, 0, 5, c));
        }
        kind_report(strategy, "gradients of what nobody sees are 0", sum == 0);
    }
    for (enum hidden how = HIDDEN_CLEAN; how < HIDDEN; ++how) {
        gradient_call_free(&calls[how]);
    }
}

static void check_strategy(const char *strategy)
{
    const int is_few = has_few(strategy);
    const struct kind *kind = is_few ? &few_kind : kinds;
    for (size_t k = 0; k < (is_few ? 1 : sizeof(kinds) / sizeof(kinds[0])); ++k) {
        check_independence(strategy, &kind[k]);
    }
    check_scaling(strategy, kind);
    check_other_inputs(strategy, kind);
    if (!is_few) {
        check_order_of_rows(strategy);
        exact_others(strategy, tight);
    }
    check_one_key(strategy);
    exact_places(strategy);
    exact_empty(strategy);
    check_appended(strategy);
    check_hidden(strategy);
}

int main(int argc, char **argv)
{
    clattn_context_options options = CLATTN_CONTEXT_OPTIONS_INIT;
    options.workspace_limit_bytes = 40000;
    if (clattn_context_open(NULL, &options, &tight) != CLATTN_OK) {
        printf("%s\n", clattn_last_error());
        return 1;
    }
    exact_empty("reference");
    const int status = kind_main(argc, argv, 1, check_strategy);
    clattn_context_destroy(tight);
    return status;
}
