/* additive_sums: what the gradients of additive attention sum over its pairs. Each pair has two rows of hidden units,
 * a query's and a key's: one side are the own rows, each of which gets a sum, the other side the rows that it is over.
 *
 *     own    [batch][own_len][hidden_stride]       t                   = tanh(own[b,o][h] + other[b,m][h])
 *     other  [batch][other_len][hidden_stride]     sums[b,o][h]        = score[h] * sum_m dS[b](o, m) * (1 - t^2)
 *     dS     [batch][rows][keys], by strides       partials[b,block][h] = sum_o,m dS[b](o, m) * t
 *
 *     global id 0: VEC hidden units       1: block of ADDITIVE_SUM_ROWS own rows       2: batch
 *
 * A pair whose dS is 0 adds nothing, whatever its rows hold: the pairs that are hidden have none. Each sum runs in the
 * order of the other rows, so that its bits depend on nothing else. Lanes past hidden_dim, in the padding of rows, hold
 * nothing of meaning. */
#include "layers/additive_lanes.clh"
#include "layers/additive_params.h"
#include "common/sum_and_rest.clh"

#define ROWS ADDITIVE_SUM_ROWS
#define BLOCK 64 /* other rows that are summed in one go */

DEFINE_ADD_EXACTLY(add_exactly, lanes)

/* Unrolled, so that a row's sum stays in a register. */
#define FOR_ROWS _Pragma("unroll") for (int r = 0; r < ROWS; ++r)

__kernel void additive_sums(const clattn_additive_sums params, __global float *workspace)
{
    const clattn_additive_sums *p = &params;
    const int h = (int)get_global_id(0) * VEC, block = (int)get_global_id(1), b = (int)get_global_id(2);
    const int first = block * ROWS, rows = min(ROWS, p->own_len - first);
    if (h >= p->hidden_dim) {
        return;
    }
    __global const float *own = workspace + p->own_at + ((clattn_i64)b * p->own_len + first) * p->hidden_stride + h;
    __global const float *other = workspace + p->other_at + (clattn_i64)b * p->other_len * p->hidden_stride + h;
    __global const float *ds = workspace + p->ds_at + b * p->ds_batch + first * p->ds_own;
    lanes mine[ROWS], total[ROWS], rest[ROWS], of_score = 0, rest_of_score = 0;
    FOR_ROWS
    {
        mine[r] = LOAD_LANES(own, min(r, rows - 1) * (clattn_i64)p->hidden_stride);
        total[r] = rest[r] = 0;
    }
    for (int start = 0; start < p->other_len; start += BLOCK) {
        lanes sum[ROWS], score_sum = 0;
        FOR_ROWS { sum[r] = 0; }
        for (int m = start; m < min(start + BLOCK, p->other_len); ++m) {
            const lanes theirs = LOAD_LANES(other, m * (clattn_i64)p->hidden_stride);
            FOR_ROWS
            {
                const float d = r < rows ? ds[r * p->ds_own + m * p->ds_other] : 0.0f;
                if (d != 0) {
                    const lanes t = TANH(mine[r] + theirs);
                    sum[r] += d * (1.0f - t * t);
                    score_sum += d * t;
                }
            }
        }
        FOR_ROWS { add_exactly(&total[r], &rest[r], sum[r]); }
        add_exactly(&of_score, &rest_of_score, score_sum);
    }
    const lanes factor = LOAD_LANES(workspace, p->score_at + h);
    __global float *sums = workspace + p->sums_at + ((clattn_i64)b * p->own_len + first) * p->hidden_stride + h;
    FOR_ROWS
    {
        if (r < rows) {
            STORE_LANES((total[r] + rest[r]) * factor, sums + r * p->hidden_stride);
        }
    }
    if (p->has_partials) {
        const clattn_i64 blocks = (p->own_len + ROWS - 1) / ROWS;
        STORE_LANES(of_score + rest_of_score, workspace + p->partials_at + (b * blocks + block) * p->hidden_stride + h);
    }
}
