/* repair: after CLBlast's product of weights and values, which knows of no hidden keys: every element of out
 * that is not finite is computed again, without the hidden keys. A NaN that a row may see comes out again.
 *
 *     global id 0: work-item of a row, for columns c, c + items, ...   1: row of the chunk   2: plane
 *
 * Reads the weights that softmax left in scores (staged.h), -0.0 where a key is hidden. */
#include "arguments.clh"
#include "hidden.clh"
#include "mask.clh"
#include "staged_params.h"

#define BLOCK 64 /* keys that are summed in one go */

static inline REAL sum_visible(const clattn_params *p, __global const REAL *weight_row,
                               __global const STORAGE *value, clattn_i64 value_at)
{
    REAL total = 0;
    for (int start = 0; start < p->key_len; start += BLOCK) {
        REAL sum = 0;
        for (int j = start; j < min(start + BLOCK, p->key_len); ++j) {
            if (!IS_HIDDEN_WEIGHT(weight_row[j])) {
                sum += weight_row[j] * LOAD(value, value_at + j * p->value_stride[2]);
            }
        }
        total += sum;
    }
    return total;
}

__kernel void repair(ATTENTION_ARGUMENTS, const staged_chunk chunk, __global REAL *scores)
{
    const clattn_params *p = &params;
    const int plane = chunk.first_plane + (int)get_global_id(2);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    const int kv_head = h / (p->query_heads / p->kv_heads);
    const int i = chunk.first_row + (int)get_global_id(1);
    const clattn_i64 value_at =
        p->value_offset + b * p->value_stride[0] + kv_head * p->value_stride[1];
    const clattn_i64 out_at = p->out_offset + b * p->out_stride[0] + h * p->out_stride[1] +
                              i * p->out_stride[2];
    __global const REAL *weight_row =
        scores + get_global_id(2) * chunk.plane_stride + get_global_id(1) * chunk.row_stride;

    for (int c = (int)get_global_id(0); c < p->head_dim_v; c += (int)get_global_size(0)) {
        const clattn_i64 at = out_at + c * p->out_stride[3];
        if (!isfinite(LOAD(out, at))) {
            STORE(out, at, sum_visible(p, weight_row, value, value_at + c * p->value_stride[3]));
        }
    }
}
