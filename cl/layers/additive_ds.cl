/* additive_ds: the derivatives of a loss at the scores of additive attention, in place of dP, which a product made.
 *
 *     dP [batch][rows][keys]             dot(dout[b,i], value[b,j])
 *     D of a row                         dot(dout[b,i], out[b,i])                             additive_row_terms
 *     dS [batch][rows][keys]             exp((scores[b][i][j] - lse[b,i]) - rest) * (dP - D)   additive_ds
 *
 *     additive_row_terms: global id 0: row of all batch entries
 *     additive_ds: group id 0: row of all batch entries, whose keys the work-items share
 *
 * Exactly 0 where the row may not see the key, whatever dP and the score are there. The rest is 0 but where lse is
 * large: there it is found, and D too, as backward/lse_rest.clh has it, so that a row's dS adds up to 0. A limit of the
 * rest is not needed, since lse is of these keys alone. */
#include "backward/backward_plain_layout.h"
#include "backward/weight_sum.clh"
#include "layers/additive_params.h"
#include "pair/mask.clh"

#define BLOCK 64 /* columns that are summed in one go */

DEFINE_ADD_EXACTLY(add_exactly, float)
DEFINE_WEIGHT_SUM(weight_sum, float, exp, 1)

#define DS_ARGUMENTS                                                                                   \
    const clattn_params params, const clattn_additive_ds values, __global const uchar *mask,           \
        __global const int *key_lengths, __global const float *dout, __global float *workspace

static inline float dot_of_row(const clattn_additive_ds *v, clattn_i64 row, __global const float *dout,
                               __global const float *workspace)
{
    float total = 0, rest = 0;
    for (int first = 0; first < v->value_dim; first += BLOCK) {
        float sum = 0;
        for (int c = first; c < min(first + BLOCK, v->value_dim); ++c) {
            const clattn_i64 at = row * v->value_dim + c;
            sum = fma(dout[v->dout_at + at], workspace[v->out_at + at], sum);
        }
        add_exactly(&total, &rest, sum);
    }
    return total + rest;
}

/* The sum of the row's weights, as additive_ds makes them. */
static inline weight_sum sum_of_weights(const clattn_params *p, const clattn_additive_ds *v,
                                        const attention_buffers *in, clattn_i64 row, float lse,
                                        __global const float *workspace)
{
    const int b = (int)(row / p->query_len), i = (int)(row % p->query_len);
    const sequence s = sequence_of(p, in, b);
    const pair_row pairs = pair_row_of(p, in, &s, b, 0, i);
    weight_sum total;
    begin_weight_sum(&total);
    for (int j = 0; j < p->key_len; ++j) {
        if (key_allowed(p, in, &s, &pairs, j)) {
            const float difference = workspace[v->scores_at + row * v->score_stride + j] - lse;
            const float by = workspace[v->ds_at + row * p->key_len + j];
            add_to_weight_sum(&total, &difference, &by, 1);
        }
    }
    return total;
}

__kernel void additive_row_terms(DS_ARGUMENTS)
{
    LEAVE_REHEARSAL(params.head_dim)
    const clattn_params *p = &params;
    const clattn_additive_ds *v = &values;
    const clattn_i64 row = (clattn_i64)get_global_id(0);
    const attention_buffers in = { .mask = mask, .key_lengths = key_lengths };
    if (row >= v->all_rows) {
        return;
    }
    const float lse = workspace[v->lse_at + row];
    __global float *terms = workspace + v->terms_at + row * ADDITIVE_TERMS;
    terms[0] = dot_of_row(v, row, dout, workspace);
    terms[1] = 0;
    if (fabs(lse) > LSE_RESTS_FROM) {
        const weight_sum sum = sum_of_weights(p, v, &in, row, lse, workspace);
        const float weights = sum.weights + sum.weights_lost, rest = sum.most + log(weights);
        if (isfinite(rest)) {
            terms[0] = (sum.products + sum.products_lost) / weights;
            terms[1] = rest;
        }
    }
}

__kernel void additive_ds(DS_ARGUMENTS)
{
    LEAVE_REHEARSAL(params.head_dim)
    const clattn_params *p = &params;
    const clattn_i64 row = (clattn_i64)get_group_id(0);
    const int b = (int)(row / p->query_len), i = (int)(row % p->query_len);
    const attention_buffers in = { .mask = mask, .key_lengths = key_lengths };
    const sequence s = sequence_of(p, &in, b);
    const float lse = workspace[values.lse_at + row];
    __global const float *terms = workspace + values.terms_at + row * ADDITIVE_TERMS;
    __global const float *scores = workspace + values.scores_at + row * values.score_stride;
    __global float *ds = workspace + values.ds_at + row * p->key_len;
    const pair_row pairs = pair_row_of(p, &in, &s, b, 0, i);
    for (int j = (int)get_local_id(0); j < p->key_len; j += (int)get_local_size(0)) {
        const int adds = lse != -INFINITY && key_allowed(p, &in, &s, &pairs, j);
        ds[j] = adds ? exp((scores[j] - lse) - terms[1]) * (ds[j] - terms[0]) : 0.0f;
    }
}
