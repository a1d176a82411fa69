/* repair: after CLBlast's product of weights and values, which knows of no hidden keys: every element of out
 * that is not finite is computed again, without the hidden keys. A NaN that a row may see comes out again.
 *
 *     global id 0: work-item of a row, for columns c, c + items, ...   1: row of the chunk   2: plane
 *
 * Reads the weights that softmax left in scores (staged.h), -0.0 where a key is hidden. */
#include "forward/arguments.clh"
#include "forward/epilogue.clh"
#include "pair/hidden.clh"
#include "forward/kv_rows.clh"
#include "staged/staged_params.h"

#define BLOCK 64 /* keys that are summed in one go */

static inline REAL sum_visible(const clattn_params *p, const attention_buffers *in, __global const REAL *weight_row,
                               const kv_rows *values, int column)
{
    REAL total = 0;
    for (int start = 0; start < p->key_len; start += BLOCK) {
        REAL sum = 0;
        for (int j = start; j < min(start + BLOCK, p->key_len); ++j) {
            if (!IS_HIDDEN_WEIGHT(weight_row[j])) {
                sum += weight_row[j] * VALUE_LOAD(in->value, kv_row(values, j) + column * values->column);
            }
        }
        total += sum;
    }
    return total;
}

__kernel void repair(ATTENTION_ARGUMENTS, const staged_chunk chunk, __global REAL *scores)
{
    ATTENTION_INPUTS(p, in);
    const int plane = chunk.first_plane + (int)get_global_id(2);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    const int kv_head = h / (p->query_heads / p->kv_heads);
    const int i = chunk.first_row + (int)get_global_id(1);
    const sequence s = sequence_of(p, &in, b);
    const kv_rows values = value_rows_of(p, &in, &s, b, kv_head);
    const clattn_i64 out_at = out_row_at(p, &s, b, h, i);
    __global const REAL *weight_row =
        scores + get_global_id(2) * chunk.plane_stride + get_global_id(1) * chunk.row_stride;

    for (int c = (int)get_global_id(0); c < p->head_dim_v; c += (int)get_global_size(0)) {
        const clattn_i64 at = out_at + c * STRIDE(out, 3);
        if (!isfinite(OUT_LOAD(in.out, at))) {
            OUT_STORE(in.out, at, sum_visible(p, &in, weight_row, &values, c));
        }
    }
}
