/* additive_score: the scores of additive attention, which then are the bias of an attention whose dot
 * products are 0 (softmax, masks and value mixing are the same for all scores).
 *
 *     queries [batch * rows][hidden_stride]  scores[b][i][j] = sum_h score[h] *
 *     keys    [batch][hidden][key_stride]                      tanh(queries[b,i][h] + keys[b][h][j])
 *
 *     global id 0: block of VEC keys       1: block of ADDITIVE_ROWS rows       2: batch
 *
 * Keys are transposed, so that neighbouring lanes or work-items read neighbours. Blocks of keys that no
 * row of the block may see by position are left out; what is hidden key by key is computed and not read. */
#include "layers/additive_lanes.clh"
#include "layers/additive_params.h"
#include "pair/mask.clh"
#include "common/sum_and_rest.clh"

#define BLOCK 64 /* hidden units that are summed in one go */

DEFINE_ADD_EXACTLY(add_exactly, lanes)

/* Unrolled, so that a row's sum stays in a register. */
#define FOR_ROWS _Pragma("unroll") for (int r = 0; r < ADDITIVE_ROWS; ++r)

__kernel void additive_score(const clattn_params params, const clattn_additive_values values,
                             __global STORAGE *storage, __global const STORAGE *score,
                             __global float *scores, __global const int *key_lengths)
{
    LEAVE_REHEARSAL(params.head_dim)
    const clattn_params *p = &params;
    const int j = (int)get_global_id(0) * VEC, i = (int)get_global_id(1) * ADDITIVE_ROWS;
    const int b = (int)get_global_id(2), rows = min(ADDITIVE_ROWS, p->query_len - i);
    if (j == 0 && i == 0 && b == 0) {
        STORE(storage, values.zero_at, 0.0f);
    }
    const attention_buffers in = { .key_lengths = key_lengths };
    const sequence s = sequence_of(p, &in, b);
    if (j >= key_high(p, &s, i + rows - 1)) {
        return;
    }
    __global const STORAGE *query = storage + values.queries_at +
                                    ((clattn_i64)b * p->query_len + i) * values.hidden_stride;
    __global const STORAGE *key = storage + values.keys_at +
                                  (clattn_i64)b * values.hidden_dim * values.key_stride + j;
    lanes total[ADDITIVE_ROWS], rest[ADDITIVE_ROWS];
    FOR_ROWS { total[r] = rest[r] = 0; }
    for (int first = 0; first < values.hidden_dim; first += BLOCK) {
        lanes sum[ADDITIVE_ROWS];
        FOR_ROWS { sum[r] = 0; }
        for (int h = first; h < min(first + BLOCK, values.hidden_dim); ++h) {
            const lanes key_hidden = LOAD_LANES(key, h * values.key_stride);
            const lanes factor = LOAD(score, values.score_at + h);
            FOR_ROWS
            {
                /* Rows past the last repeat it. */
                const float query_hidden = LOAD(query, min(r, rows - 1) * (clattn_i64)values.hidden_stride + h);
                sum[r] += factor * TANH(key_hidden + query_hidden);
            }
        }
        FOR_ROWS { add_exactly(&total[r], &rest[r], sum[r]); }
    }
    FOR_ROWS
    {
        if (r < rows) {
            STORE_LANES(total[r] + rest[r], scores + values.scores_at +
                                      ((clattn_i64)b * p->query_len + i + r) * values.key_stride + j);
        }
    }
}
