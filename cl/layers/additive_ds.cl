/* additive_ds: the derivatives of a loss at the scores of additive attention, in place of dP, which a product made.
 *
 *     dP [batch][rows][keys]             dot(dout[b,i], value[b,j])
 *     D  [batch * rows]                  dot(dout[b,i], out[b,i])                      additive_row_terms
 *     dS [batch][rows][keys]             exp(scores[b][i][j] - lse[b,i]) * (dP - D)     additive_ds
 *
 *     additive_row_terms: global id 0: row of all batch entries
 *     additive_ds: group id 0: row of all batch entries, whose keys the work-items share
 *
 * Exactly 0 where the row may not see the key, whatever dP and the score are there. */
#include "layers/additive_params.h"
#include "pair/mask.clh"
#include "common/sum_and_rest.clh"

#define BLOCK 64 /* columns that are summed in one go */

DEFINE_ADD_EXACTLY(add_exactly, float)

__kernel void additive_row_terms(const clattn_additive_ds values, __global const float *dout,
                                 __global float *workspace)
{
    const clattn_additive_ds *v = &values;
    const int row = (int)get_global_id(0);
    float total = 0, rest = 0;
    for (int first = 0; first < v->value_dim && row < v->all_rows; first += BLOCK) {
        float sum = 0;
        for (int c = first; c < min(first + BLOCK, v->value_dim); ++c) {
            const clattn_i64 at = (clattn_i64)row * v->value_dim + c;
            sum = fma(dout[v->dout_at + at], workspace[v->out_at + at], sum);
        }
        add_exactly(&total, &rest, sum);
    }
    if (row < v->all_rows) {
        workspace[v->d_at + row] = total + rest;
    }
}

__kernel void additive_ds(const clattn_params params, const clattn_additive_ds values,
                          __global const uchar *mask, __global const int *key_lengths, __global float *workspace)
{
    LEAVE_REHEARSAL(params.head_dim)
    const clattn_params *p = &params;
    const clattn_i64 row = (clattn_i64)get_group_id(0);
    const int b = (int)(row / p->query_len), i = (int)(row % p->query_len);
    const attention_buffers in = { .mask = mask, .key_lengths = key_lengths };
    const sequence s = sequence_of(p, &in, b);
    const float lse = workspace[values.lse_at + row], d = workspace[values.d_at + row];
    __global const float *scores = workspace + values.scores_at + row * values.score_stride;
    __global float *ds = workspace + values.ds_at + row * p->key_len;
    const pair_row pairs = pair_row_of(p, &in, &s, b, 0, i);
    for (int j = (int)get_local_id(0); j < p->key_len; j += (int)get_local_size(0)) {
        const int adds = lse != -INFINITY && key_allowed(p, &in, &s, &pairs, j);
        ds[j] = adds ? exp(scores[j] - lse) * (ds[j] - d) : 0.0f;
    }
}
