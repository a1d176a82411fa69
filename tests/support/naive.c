/* The four loops. */
#include "naive.h"

#include <math.h>
#include <stdlib.h>

#include "operation/forward.h"
#include "reference/philox.h"

struct naive {
    const struct test_call *test;
    const clattn_problem *p;
    uint64_t tensors;     /* a bit each that the call has */
    unsigned char *hides; /* for each key of the row, once weights_of_row has looked */
    int64_t b, h, i;
    int64_t queries, keys, visible_keys, first_query, first_key, offset;
    double (*round_sum)(double);   /* after each addition and multiplication */
    double (*round_store)(double); /* where a matrix would be stored */
};

static double keep(double value)
{
    return value;
}

static double to_float(double value)
{
    return (float)value;
}

/* To nearest even with `bits` of significand, subnormals included: by adding and removing a power of two
 * that leaves no room for more. Overflow is not looked at: the yardstick is for values that fit. */
static double to_bits(double value, int bits, int least_exponent)
{
    int exponent;
    frexp(value, &exponent);
    exponent = exponent < least_exponent + 1 ? least_exponent + 1 : exponent;
    double big = ldexp(1.5, 52 + exponent - bits);
    return isfinite(value) ? (value + big) - big : value;
}

static double to_half(double value)
{
    return to_bits(value, 11, -14);
}

static double to_bfloat16(double value)
{
    return to_bits(value, 8, -126);
}

static int has(const struct naive *n, enum tensor_id id)
{
    return (int)(n->tensors >> id & 1);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void locate(struct naive *n)
{
    const struct test_call *t = n->test;
    const clattn_call *call = &t->values;
    n->queries = call->query_len >= 0 ? call->query_len : n->p->query_len;
    n->keys = call->key_len >= 0 ? call->key_len : n->p->key_len;
    n->first_query = n->first_key = n->offset = 0;
    if (has(n, TENSOR_CU_QUERY)) {
        n->first_query = (int64_t)test_call_get(t, TENSOR_CU_QUERY, 0, 0, 0, n->b);
        n->queries = least(n->queries, (int64_t)test_call_get(t, TENSOR_CU_QUERY, 0, 0, 0, n->b + 1) - n->first_query);
    }
    if (has(n, TENSOR_CU_KEY)) {
        n->first_key = (int64_t)test_call_get(t, TENSOR_CU_KEY, 0, 0, 0, n->b);
        n->keys = least(n->keys, (int64_t)test_call_get(t, TENSOR_CU_KEY, 0, 0, 0, n->b + 1) - n->first_key);
    }
    n->visible_keys = n->keys;
    if (has(n, TENSOR_KEY_LENGTHS)) {
        n->visible_keys = least(n->keys, (int64_t)test_call_get(t, TENSOR_KEY_LENGTHS, 0, 0, 0, n->b));
    }
    if (n->p->alignment == CLATTN_ALIGN_BOTTOM_RIGHT) {
        n->offset = n->visible_keys - n->queries;
    }
    if (n->p->alignment == CLATTN_ALIGN_OFFSETS) {
        n->offset = (int64_t)test_call_get(t, TENSOR_QUERY_OFFSETS, 0, 0, 0, n->b);
    }
}

/* Keys go round in a ring, but for the first ones. */
static int64_t stored_row(const struct naive *n, int64_t j)
{
    const int64_t stay = n->p->always_visible_keys;
    while (n->p->ring > 0 && j >= n->p->ring) {
        j -= n->p->ring - stay;
    }
    return j;
}

/* The page that key j is in; outside of the pool: a hole. */
static int64_t page_of(const struct naive *n, int64_t j)
{
    const int64_t page = stored_row(n, j) / n->p->page_size, kv_head = n->h * n->p->kv_heads / n->p->query_heads;
    return has(n, TENSOR_PAGE_STARTS)
               ? (int64_t)test_call_get(n->test, TENSOR_PAGE_TABLE, 0, kv_head, 0,
                                        (int64_t)test_call_get(n->test, TENSOR_PAGE_STARTS, 0, 0, 0, n->b) + page)
               : (int64_t)test_call_get(n->test, TENSOR_PAGE_TABLE, n->b, kv_head, 0, page);
}

static double key_or_value(const struct naive *n, enum tensor_id id, int64_t group, int64_t j, int64_t column)
{
    const int64_t size = n->p->page_size, stored = stored_row(n, j);
    const int64_t entry = size > 0 ? page_of(n, j) : has(n, TENSOR_CU_QUERY) ? 0 : n->b;
    const int64_t row = size > 0 ? stored - stored / size * size : n->first_key + stored;
    const double element = test_call_get(n->test, id, entry, group, row, column);
    const enum tensor_id scales = id == TENSOR_KEY ? TENSOR_KEY_SCALES : TENSOR_VALUE_SCALES;
    if (!has(n, scales)) {
        return element;
    }
    const int64_t rows = id == TENSOR_KEY ? n->p->key_scale_rows : n->p->value_scale_rows;
    const int64_t columns = id == TENSOR_KEY ? n->p->key_scale_columns : n->p->value_scale_columns;
    const int64_t i = rows > 0 ? row / rows : 0, shared = columns > 0 ? column / columns : 0;
    const enum tensor_id zeros = id == TENSOR_KEY ? TENSOR_KEY_ZERO_POINTS : TENSOR_VALUE_ZERO_POINTS;
    const enum tensor_id whole = id == TENSOR_KEY ? TENSOR_KEY_TENSOR_SCALE : TENSOR_VALUE_TENSOR_SCALE;
    float scale = (float)test_call_get(n->test, scales, entry, group, i, shared);
    const double zero = has(n, zeros) ? test_call_get(n->test, zeros, entry, group, i, shared) : 0;
    if (has(n, whole)) {
        scale *= (float)test_call_get(n->test, whole, 0, 0, 0, 0);
    }
    return (float)((double)(float)(element - zero) * scale);
}

static int is_listed(const struct naive *n, int64_t j)
{
    const int64_t kv_head = n->h * n->p->kv_heads / n->p->query_heads, list = n->i / n->p->key_list_rows;
    double key = 0;
    for (int64_t at = 0; at < n->p->key_list_keys && key >= 0; ++at) {
        key = test_call_get(n->test, TENSOR_KEY_LISTS, n->b, kv_head, list, at);
        if (key == (double)j) {
            return 1;
        }
    }
    return 0;
}

static int is_masked(const struct naive *n, int64_t column)
{
    if (!n->p->mask_bits) {
        return !(test_call_get(n->test, TENSOR_MASK, n->b, n->h, n->i, column) > 0);
    }
    double byte = test_call_get(n->test, TENSOR_MASK, n->b, n->h, n->i, column / 8);
    for (int64_t bit = 0; bit < column % 8; ++bit) {
        byte = floor(byte / 2);
    }
    return !(fmod(byte, 2) > 0);
}

static int hidden(const struct naive *n, int64_t j)
{
    const clattn_problem *p = n->p;
    const clattn_call *call = &n->test->values;
    int64_t distance = j - (n->i + n->offset); /* > 0: after the query */
    int outside = (p->window_left >= 0 && -distance > p->window_left) ||
                  (p->window_right >= 0 && distance > p->window_right);
    if (j >= n->visible_keys || (p->causal && distance > 0) || (outside && j >= p->always_visible_keys)) {
        return 1;
    }
    if (n->p->ring > 0 && j >= p->always_visible_keys &&
        j + n->p->ring - p->always_visible_keys < n->visible_keys) { /* another key has its row */
        return 1;
    }
    if (n->p->page_size > 0 && (page_of(n, j) < 0 || page_of(n, j) > n->p->pages - 1)) {
        return 1;
    }
    if (has(n, TENSOR_ROW_LOW)) {
        const int64_t entry = has(n, TENSOR_CU_QUERY) ? 0 : n->b, row = n->first_query + n->i;
        if (j < (int64_t)test_call_get(n->test, TENSOR_ROW_LOW, entry, n->h, row, 0) ||
            j >= (int64_t)test_call_get(n->test, TENSOR_ROW_HIGH, entry, n->h, row, 0)) {
            return 1;
        }
    }
    if (has(n, TENSOR_KEY_LISTS) && !is_listed(n, j)) {
        return 1;
    }
    if (has(n, TENSOR_BLOCK_MASK) && !(test_call_get(n->test, TENSOR_BLOCK_MASK, n->b, n->h, n->i / p->block_mask_rows,
                                                     j / p->block_mask_keys) > 0)) {
        return 1;
    }
    const int64_t column = j - call->mask_first_key;
    if (has(n, TENSOR_MASK) && column >= 0 &&
        ((call->mask_key_len >= 0 && column >= call->mask_key_len) || is_masked(n, column))) {
        return 1;
    }
    return has(n, TENSOR_BIAS) && column >= 0 &&
           ((call->bias_key_len >= 0 && column >= call->bias_key_len) ||
            test_call_get(n->test, TENSOR_BIAS, n->b, n->h, n->i, column) < -1.7e308);
}

static double logit(const struct naive *n, int64_t j)
{
    const clattn_problem *p = n->p;
    const clattn_call *call = &n->test->values;
    int64_t entry = has(n, TENSOR_CU_QUERY) ? 0 : n->b;
    int64_t group = n->h * p->kv_heads / p->query_heads;
    double sum = 0, scale = call->has_scale ? call->scale : pow((double)p->head_dim, -0.5);
    for (int64_t d = 0; d < p->head_dim; ++d) {
        double q = test_call_get(n->test, TENSOR_QUERY, entry, n->h, n->first_query + n->i, d);
        double k = key_or_value(n, TENSOR_KEY, group, j, d);
        sum = n->round_sum(sum + n->round_sum(q * k));
    }
    double s = n->round_store(n->round_sum(sum * n->round_sum(scale)));
    s = p->softcap > 0 ? n->round_store(p->softcap * tanh(s / p->softcap)) : s;
    if (has(n, TENSOR_BIAS) && j >= call->mask_first_key) {
        s = n->round_store(s + test_call_get(n->test, TENSOR_BIAS, n->b, n->h, n->i, j - call->mask_first_key));
    }
    if (has(n, TENSOR_SLOPES)) {
        double distance = fabs((double)(n->i + n->offset - j));
        s = n->round_store(s - test_call_get(n->test, TENSOR_SLOPES, n->b, n->h, 0, 0) * distance);
    }
    return s;
}

static int dropped(const struct naive *n, int64_t j)
{
    const clattn_call *call = &n->test->values;
    const uint32_t key[2] = { (uint32_t)(call->dropout_seed & 0xffffffffu), (uint32_t)(call->dropout_seed >> 32) };
    const uint32_t counter[4] = { (uint32_t)j >> 2, (uint32_t)n->i, (uint32_t)(n->b * n->p->query_heads + n->h),
                                  call->dropout_offset };
    uint32_t words[4];
    philox_4x32_10(counter, key, words);
    return ldexp(words[j & 3], -32) < n->p->dropout;
}

/* Weights of a row into p, and into hides which of them count; returns lse. */
static double weights_of_row(const struct naive *n, double *p)
{
    double most = -(double)INFINITY, sum = 0, sink = -(double)INFINITY;
    int any = 0;
    for (int64_t j = 0; j < n->keys; ++j) {
        n->hides[j] = (unsigned char)hidden(n, j);
        p[j] = n->hides[j] ? -(double)INFINITY : logit(n, j);
        any |= !n->hides[j];
        most = p[j] > most || isnan(p[j]) ? p[j] : most;
    }
    if (has(n, TENSOR_SINKS)) {
        sink = test_call_get(n->test, TENSOR_SINKS, 0, n->h, 0, 0);
        most = sink > most ? sink : most;
        sum = n->round_sum(exp(n->round_sum(sink - most)));
    }
    for (int64_t j = 0; j < n->keys; ++j) {
        p[j] = n->hides[j] ? 0 : n->round_sum(exp(n->round_sum(p[j] - most)));
        sum = n->round_sum(sum + p[j]);
    }
    for (int64_t j = 0; j < n->keys; ++j) {
        p[j] = n->round_store(n->round_sum(p[j] / sum));
    }
    return any || has(n, TENSOR_SINKS) ? n->round_sum(most + log(sum)) : -(double)INFINITY;
}

static void row(const struct naive *n, double *p, double *out)
{
    int64_t columns = n->p->head_dim_v ? n->p->head_dim_v : n->p->head_dim;
    int64_t group = n->h * n->p->kv_heads / n->p->query_heads;
    for (int64_t j = 0; n->p->dropout > 0 && j < n->keys; ++j) {
        p[j] = dropped(n, j) ? 0 : n->round_store(p[j] / (1 - n->p->dropout));
    }
    for (int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < n->keys; ++j) {
            if (n->hides[j]) {
                continue;
            }
            double v = key_or_value(n, TENSOR_VALUE, group, j, c);
            sum = n->round_sum(sum + n->round_sum(p[j] * v));
        }
        out[c] = n->round_store(sum);
    }
}

void naive_forward(const struct test_call *test, enum naive_precision precision, double *out, double *lse)
{
    struct naive n = { .test = test, .p = &test->problem, .round_sum = keep, .round_store = keep };
    n.tensors = forward_asked(n.p, NULL);
    if (precision == NAIVE_STORAGE && n.p->type != CLATTN_FLOAT64) {
        n.round_sum = to_float;
        n.round_store = n.p->type == CLATTN_FLOAT16 ? to_half : n.p->type == CLATTN_BFLOAT16 ? to_bfloat16 : to_float;
    }
    int64_t columns = n.p->head_dim_v ? n.p->head_dim_v : n.p->head_dim;
    int64_t rows = test->values.query_len >= 0 ? test->values.query_len : n.p->query_len;
    double *p = malloc((size_t)(n.p->key_len + 1) * sizeof(*p));
    n.hides = malloc((size_t)(n.p->key_len + 1));
    if (!p || !n.hides) {
        abort();
    }
    for (n.b = 0; n.b < n.p->batch; ++n.b) {
        locate(&n);
        for (n.h = 0; n.h < n.p->query_heads; ++n.h) {
            for (n.i = 0; n.i < n.queries; ++n.i) {
                int64_t at = (n.b * n.p->query_heads + n.h) * rows + n.i;
                double row_lse = weights_of_row(&n, p);
                row(&n, p, out + at * columns);
                if (lse) {
                    lse[at] = row_lse;
                }
            }
        }
    }
    free(n.hides);
    free(p);
}
