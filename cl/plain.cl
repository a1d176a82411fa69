/* plain: the whole definition, one work-item for COLUMNS columns of one output row, in two passes over
 * the keys. Any shape, stride, mask and type, decided at run time; no local memory. It is what every
 * device can run and what the other strategies are compared with, not what is fast.
 *
 *     global id 0: query row        1: block of COLUMNS output columns        2: batch * head
 *
 *     pass 1   m = max_j s_j, l = sum_j exp(s_j - m), rescaled when m moves
 *     pass 2   out_c = sum_j exp(s_j - m) / l * v_jc
 *
 * Sums run in blocks of BLOCK keys, which keeps their rounding error near sqrt(n). */
#include "arguments.clh"
#include "mask.clh"
#include "philox.clh"

#ifndef COLUMNS
#define COLUMNS 16
#endif
#define BLOCK 64

typedef struct row_state {
    sequence s;
    int b, h, i;
    clattn_i64 query_at, key_at, value_at; /* first element of the row, of key 0, of value 0 */
    REAL slope;
} row_state;

static inline REAL dot_scaled(const clattn_params *p, const row_state *row,
                              __global const STORAGE *query, __global const STORAGE *key, int j)
{
    clattn_i64 key_at = row->key_at + j * p->key_stride[2];
    REAL sum = 0;
    for (int c = 0; c < p->head_dim; ++c) {
        sum = fma(LOAD(query, row->query_at + c * p->query_stride[3]),
                  LOAD(key, key_at + c * p->key_stride[3]), sum);
    }
    return sum * PARAM_REAL(p, scale);
}

/* What weights holds at (i, j), by mode. */
static inline REAL weight_out(int mode, REAL score, REAL softcapped, REAL logit, REAL weight)
{
    return mode == CLATTN_CL_WEIGHTS_SCORES    ? score
           : mode == CLATTN_CL_WEIGHTS_SOFTCAP ? softcapped
           : mode == CLATTN_CL_WEIGHTS_LOGITS  ? logit
                                               : weight;
}

__kernel void plain(ATTENTION_ARGUMENTS, int first_row, int first_head)
{
    const clattn_params *p = &params;
    row_state row;
    row.i = first_row + (int)get_global_id(0);
    row.b = (first_head + (int)get_global_id(2)) / p->query_heads;
    row.h = (first_head + (int)get_global_id(2)) % p->query_heads;
    const int column = (int)get_global_id(1) * COLUMNS;
    if (row.i >= p->query_len) {
        return;
    }
    row.s = sequence_of(p, row.b, key_lengths, query_offsets, cu_query, cu_key);
    const int exists = row.i < row.s.query_len;
    const int kv_head = row.h / (p->query_heads / p->kv_heads);
    row.query_at = p->query_offset + row.b * p->query_stride[0] + row.h * p->query_stride[1] +
                   (row.s.query_row + row.i) * p->query_stride[2];
    row.key_at = p->key_offset + row.b * p->key_stride[0] + kv_head * p->key_stride[1] +
                 row.s.key_row * p->key_stride[2];
    row.value_at = p->value_offset + row.b * p->value_stride[0] + kv_head * p->value_stride[1] +
                   row.s.key_row * p->value_stride[2];
    row.slope = head_slope(p, slopes, row.b, row.h);

    /* Pass 1. A NaN must become the maximum: fmax would drop it. */
    const int low = exists ? key_low(p, &row.s, row.i) : 0;
    const int high = exists ? key_high(p, &row.s, row.i) : 0;
    REAL maximum = -INFINITY, sum = 0;
    int any_allowed = 0;
    for (int start = low; start < high; start += BLOCK) {
        REAL block_sum = 0;
        for (int j = start; j < min(start + BLOCK, high); ++j) {
            if (!key_allowed(p, &row.s, mask, row.b, row.h, row.i, j)) {
                continue;
            }
            REAL score = apply_softcap(p, dot_scaled(p, &row, query, key, j));
            if (!finish_score(p, &row.s, mask, bias, row.slope, row.b, row.h, row.i, j, &score)) {
                continue;
            }
            if (!any_allowed || score > maximum || isnan(score)) {
                REAL rescale = any_allowed ? exp(maximum - score) : 0;
                block_sum *= rescale;
                sum *= rescale;
                maximum = score;
                any_allowed = 1;
            }
            block_sum += score == maximum ? 1 : exp(score - maximum); /* not inf - inf */
        }
        sum += block_sum;
    }
    if (HAS(SINKS) && any_allowed) {
        REAL sink = sinks[p->sinks_offset + row.h * p->sinks_stride];
        REAL top = sink > maximum ? sink : maximum;
        sum = sum * exp(maximum - top) + exp(sink - top);
        maximum = top;
    }
    if (HAS(LSE) && column == 0 && exists) {
        lse[p->lse_offset + row.b * p->lse_stride[0] + row.h * p->lse_stride[1] +
            (row.s.query_row + row.i) * p->lse_stride[2]] =
            any_allowed ? (float)(maximum + log(sum)) : -INFINITY;
    }

    /* Pass 2. Weights go out once, by the first block of columns, and for every key. */
    const int writes_weights = p->weights != 0 && column == 0;
    const int first = writes_weights ? 0 : low, last = writes_weights ? p->key_len : high;
    const int columns = min(COLUMNS, p->head_dim_v - column);
    REAL total[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) {
        total[c] = 0;
    }
    for (int start = first; start < last; start += BLOCK) {
        REAL partial[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) {
            partial[c] = 0;
        }
        for (int j = start; j < min(start + BLOCK, last); ++j) {
            const int in_sequence = exists && j < row.s.stored_len;
            int allowed = exists && key_allowed(p, &row.s, mask, row.b, row.h, row.i, j);
            if (!allowed && !writes_weights) {
                continue;
            }
            REAL score = in_sequence ? dot_scaled(p, &row, query, key, j) : 0;
            REAL softcapped = apply_softcap(p, score), logit = softcapped;
            allowed = exists && finish_score(p, &row.s, mask, bias, row.slope, row.b, row.h, row.i, j,
                                             &logit);
            REAL weight = allowed ? exp(logit - maximum) / sum : 0;
            if (writes_weights) {
                weights[p->weights_offset + row.b * p->weights_stride[0] + row.h * p->weights_stride[1] +
                        row.i * p->weights_stride[2] + j * p->weights_stride[3]] =
                    weight_out(p->weights, score, softcapped, exists ? logit : -INFINITY, weight);
            }
            if (!allowed) {
                continue;
            }
            if (HAS(DROPOUT)) {
                weight = dropout_keeps(p, row.b, row.h, row.i, j) ? weight * PARAM_REAL(p, keep_scale)
                                                                   : 0;
            }
            clattn_i64 value_at = row.value_at + j * p->value_stride[2] + column * p->value_stride[3];
            for (int c = 0; c < columns; ++c) {
                partial[c] = fma(weight, LOAD(value, value_at + c * p->value_stride[3]), partial[c]);
            }
        }
        for (int c = 0; c < COLUMNS; ++c) {
            total[c] += partial[c];
        }
    }
    if (!exists) {
        return;
    }
    clattn_i64 out_at = p->out_offset + row.b * p->out_stride[0] + row.h * p->out_stride[1] +
                        (row.s.query_row + row.i) * p->out_stride[2] + column * p->out_stride[3];
    for (int c = 0; c < columns; ++c) {
        STORE(out, out_at + c * p->out_stride[3], total[c]);
    }
}
