/* plain: the whole definition, one work-item for COLUMNS columns of one output row, in two passes over
 * the keys. Any shape, stride, mask and type, decided at run time; no local memory. It is what every
 * device can run and what the other strategies are compared with, not what is fast.
 *
 *     global id 0: query row        1: block of COLUMNS output columns        2: batch * head
 *
 *     pass 1   m = max_j s_j, l = sum_j exp(s_j - m), rescaled when m moves
 *     pass 2   out_c = sum_j exp(s_j - m) / l * v_jc
 *
 * Sums run in blocks of BLOCK keys, or columns of a score, which are added with what rounding takes away: so the error
 * does not grow with the number of keys. */
/* Rare features take registers: a program without their tensors knows that they are not there. */
#define WITHOUT(group, flag) (CLATTN_TAKES & CLATTN_TAKES_##group ? 0u : CLATTN_FLAG_##flag)
#define ABSENT (WITHOUT(RANGES, ROW_RANGES) | WITHOUT(BLOCKS, BLOCK_MASK))
#define FLAGS (p->flags & ~ABSENT)

#include "forward/arguments.clh"
#include "forward/epilogue.clh"
#include "forward/kv_rows.clh"
#include "pair/logit.clh"
#include "pair/philox.clh"
#include "plain/plain_layout.h"
#include "common/sum_and_rest.clh"

#define COLUMNS PLAIN_COLUMNS
#define HAS_CODES (IS_CODES(KEY_TYPE) || IS_CODES(VALUE_TYPE))
#define BLOCK 64

/* Unrolled, so that sums of columns stay in registers. */
#define FOR_COLUMNS _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c)

/* One output row: where its data is. */
typedef struct row {
    sequence s;
    pair_row at;
    int exists; /* 0: past the end of its packed sequence */
    clattn_i64 query_at; /* first element of the row */
    kv_rows keys, values;
#if HAS_CODES
    kv_scales key_scales, value_scales;
#endif
} row;

DEFINE_ADD_EXACTLY(add_exactly, REAL)

/* The softmax of a row: p_j = exp(s_j - row_maximum) / row_sum. `rest`: of row_sum, until all keys are in it. */
typedef struct softmax {
    REAL row_maximum, row_sum, rest;
    int any_allowed;
} softmax;

#define KEY_BUFFER ((__global const ELEMENT_KEY *)BUFFER_AT(in->key, &r->keys, key_at))
#define VALUE_BUFFER ((__global const ELEMENT_VALUE *)BUFFER_AT(in->value, &r->values, value_at))

static inline REAL scaled_dot(const clattn_params *p, const attention_buffers *in, const row *r, int j)
{
    const clattn_i64 key_at = kv_row(&r->keys, j);
#if IS_CODES(KEY_TYPE)
    const scale_row scales = kv_scale_row(&r->key_scales, &r->keys, j);
#endif
    REAL sum = 0, total = 0;
    for (int c = 0; c < p->head_dim; ++c) {
        if (c % BLOCK == 0) {
            total += sum;
            sum = 0;
        }
#if IS_CODES(KEY_TYPE)
        const REAL element = kv_value(KEY_TYPE, STORED_OF(KEY_TYPE, KEY_BUFFER + IN_POOL(key_at), c, r->keys.column),
                                      &scales, c);
#else
        const REAL element = KEY_LOAD(KEY_BUFFER, IN_POOL(key_at) + c * r->keys.column);
#endif
        sum = FMA(LOAD(in->query, r->query_at + c * STRIDE(query, 3)), element, sum);
    }
    return (total + sum) * PARAM_REAL(p, scale);
}

/* Takes one score into a softmax. The comparison with itself finds NaN, which must become the maximum:
 * fmax would drop it. The maximum rises by 1 at least, so that the errors of rescaling halve each time and do not add
 * up. score == maximum stands for exp(0) also where both are infinite. */
static inline void add_score(softmax *soft, REAL *block_sum, REAL score)
{
    if (!soft->any_allowed || score > soft->row_maximum || isnan(score)) {
        const REAL least = soft->any_allowed ? soft->row_maximum + 1 : -INFINITY, risen = score < least ? least : score;
        const REAL rescale = soft->any_allowed ? exp(soft->row_maximum - risen) : 0;
        *block_sum *= rescale;
        soft->row_sum *= rescale;
        soft->rest *= rescale;
        soft->row_maximum = risen;
        soft->any_allowed = 1;
    }
    *block_sum += score == soft->row_maximum ? 1 : exp(score - soft->row_maximum);
}

static inline softmax softmax_of_row(const clattn_params *p, const attention_buffers *in, const row *r)
{
    softmax soft = { -INFINITY, 0, 0, 0 };
    const int low = key_low(p, &r->s, r->at.i), high = r->exists ? key_high(p, &r->s, r->at.i) : 0;
    for (int start = low; start < high; start += BLOCK) {
        REAL block_sum = 0;
        for (int j = start; j < min(start + BLOCK, high); ++j) {
            const int key = key_at_place(&r->s, j);
            if (key_allowed(p, in, &r->s, &r->at, key)) {
                REAL logit = scaled_dot(p, in, r, j);
                if (finish_logit(p, in, &r->s, &r->at, key, &logit)) {
                    add_score(&soft, &block_sum, logit);
                }
            }
        }
        add_exactly(&soft.row_sum, &soft.rest, block_sum);
    }
    soft.row_sum += soft.rest;
    /* exp(inf - inf), which add_score passed over, is in every weight of the row. */
    soft.row_sum = soft.row_maximum == (REAL)INFINITY ? (REAL)NAN : soft.row_sum;
    return soft;
}

/* p_j of one key; *weight_out is what the weights output wants to know of it. */
static inline REAL weigh_key(const clattn_params *p, const attention_buffers *in, const row *r,
                             const softmax *soft, int j, int *allowed, REAL *weight_out)
{
    const int key = key_at_place(&r->s, j);
    int stored = r->exists && key < r->s.stored_len;
    if (PAGED && stored) {
        stored = page_is_there(p, &r->s, key);
    }
    if (RING && stored) {
        stored = key_is_kept(p, &r->s, key);
    }
    const REAL score = stored ? scaled_dot(p, in, r, j) : 0;
    REAL logit = score;
    *allowed = r->exists && finish_logit(p, in, &r->s, &r->at, key, &logit);
    const REAL weight = *allowed ? exp(logit - soft->row_maximum) / soft->row_sum : 0;
    *weight_out = p->weights == CLATTN_CL_WEIGHTS_SCORES    ? score
                  : p->weights == CLATTN_CL_WEIGHTS_SOFTCAP ? cap_score(p, score)
                  : p->weights == CLATTN_CL_WEIGHTS_SOFTMAX ? weight
                  : r->exists                               ? logit
                                                            : -INFINITY;
    return weight;
}

static inline void add_value(const clattn_params *p, const attention_buffers *in, const row *r, REAL weight,
                             int j, int column, int columns, REAL *sums)
{
    if (HAS(DROPOUT)) {
        const int keeps = dropout_keeps(p, r->at.b, r->at.h, r->at.i, key_at_place(&r->s, j));
        weight = keeps ? weight * PARAM_REAL(p, keep_scale) : 0;
    }
    const clattn_i64 value_at = kv_row(&r->values, j);
#if IS_CODES(VALUE_TYPE)
    __global const ELEMENT_VALUE *value = VALUE_BUFFER + IN_POOL(value_at);
    const scale_row scales = kv_scale_row(&r->value_scales, &r->values, j);
#else
    const clattn_i64 at = IN_POOL(value_at) + column * r->values.column;
#endif
    FOR_COLUMNS
    {
        if (c < columns) {
#if IS_CODES(VALUE_TYPE)
            const REAL element =
                kv_value(VALUE_TYPE, STORED_OF(VALUE_TYPE, value, column + c, r->values.column), &scales, column + c);
#else
            const REAL element = VALUE_LOAD(VALUE_BUFFER, at + c * r->values.column);
#endif
            sums[c] = FMA(weight, element, sums[c]);
        }
    }
}

static inline row find_row(const clattn_params *p, const attention_buffers *in, int b, int h, int i)
{
    const int kv_head = h / (p->query_heads / p->kv_heads);
    const sequence s = sequence_of(p, in, b);
    row r;
    r.s = s;
    r.exists = i < s.query_len;
    r.query_at = query_row_at(p, &s, b, h, i);
    if (r.exists) {
        narrow_to_rows(p, in, &r.s, b, h, 1, i, i);
        r.at = pair_row_of(p, in, &r.s, b, h, i);
    }
    r.keys = key_rows_of(p, in, &r.s, b, kv_head);
    r.values = value_rows_of(p, in, &r.s, b, kv_head);
#if HAS_CODES
    r.key_scales = key_scales_of(p, in, &r.s, b, kv_head);
    r.value_scales = value_scales_of(p, in, &r.s, b, kv_head);
#endif
    return r;
}

__kernel LEAST_SUB_GROUP void plain(ATTENTION_ARGUMENTS, int first_row, int first_head)
{
    ATTENTION_INPUTS(p, in);
    const int i = first_row + (int)get_global_id(0), column = (int)get_global_id(1) * COLUMNS;
    const int b = (first_head + (int)get_global_id(2)) / p->query_heads;
    const int h = (first_head + (int)get_global_id(2)) % p->query_heads;
    if (i >= p->query_len) {
        return;
    }
    const row r = find_row(p, &in, b, h, i);
    softmax soft = softmax_of_row(p, &in, &r);
    if (HAS(SINKS)) {
        REAL sink_sum = 0;
        add_score(&soft, &sink_sum, sink_of(p, &in, h));
        soft.row_sum += sink_sum;
    }
    if (HAS(LSE) && column == 0 && r.exists) {
        in.lse[lse_at(p, &r.s, b, h, i)] = lse_of(p, soft.any_allowed, soft.row_maximum, soft.row_sum);
    }

    /* Weights go out once, by the first block of columns, and for every key. */
    const int writes_weights = p->weights != 0 && column == 0;
    const int low = writes_weights ? 0 : key_low(p, &r.s, i);
    const int high = writes_weights ? p->key_len : r.exists ? key_high(p, &r.s, i) : 0;
    const int columns = min(COLUMNS, p->head_dim_v - column);
    REAL total[COLUMNS] = { 0 }, rest[COLUMNS] = { 0 };
    for (int start = low; start < high; start += BLOCK) {
        REAL sums[COLUMNS] = { 0 };
        for (int j = start; j < min(start + BLOCK, high); ++j) {
            if (!writes_weights && !key_allowed(p, &in, &r.s, &r.at, key_at_place(&r.s, j))) {
                continue;
            }
            int allowed;
            REAL shown;
            const REAL weight = weigh_key(p, &in, &r, &soft, j, &allowed, &shown);
            if (writes_weights) {
                in.weights[weights_row_at(p, b, h, i) + j * STRIDE(weights, 3)] = shown;
            }
            if (allowed) {
                add_value(p, &in, &r, weight, j, column, columns, sums);
            }
        }
        FOR_COLUMNS { add_exactly(&total[c], &rest[c], sums[c]); }
    }
    const clattn_i64 out_at = out_row_at(p, &r.s, b, h, i) + column * STRIDE(out, 3);
    FOR_COLUMNS
    {
        if (c < columns && r.exists) {
            OUT_STORE(in.out, out_at + c * STRIDE(out, 3), total[c] + rest[c]);
        }
    }
}
