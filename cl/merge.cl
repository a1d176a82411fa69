/* merge: attention over two disjoint sets of keys -> attention over both. One work-item a row, so that
 * a row's lse is read before it is written: merged may be a or b.
 *
 *     global id 0: row        1: head        2: batch
 *
 *     lse = ln(exp(lse_a) + exp(lse_b)),  out_c = exp(lse_a - lse) a_c + exp(lse_b - lse) b_c
 *
 * A side with lse = -inf saw no key: its out is not read, so that garbage there does no harm. */
#include "merge_params.h"
#include "types.clh"

static inline clattn_i64 place(clattn_i64 offset, const clattn_i64 *stride, int b, int h, int i)
{
    return offset + b * stride[0] + h * stride[1] + i * stride[2];
}

__kernel void merge(const clattn_merge_params params, __global const STORAGE *a,
                    __global const STORAGE *b, __global STORAGE *merged, __global const float *lse_a,
                    __global const float *lse_b, __global float *lse)
{
    const clattn_merge_params *p = &params;
    const int i = (int)get_global_id(0), h = (int)get_global_id(1), batch = (int)get_global_id(2);
    if (i >= p->rows) {
        return;
    }
    const REAL first = lse_a[place(p->lse_offset[0], p->lse_stride[0], batch, h, i)];
    const REAL second = lse_b[place(p->lse_offset[1], p->lse_stride[1], batch, h, i)];
    const int has_a = first != -INFINITY, has_b = second != -INFINITY;
    const REAL top = first > second ? first : second;
    const REAL sum = (has_a ? exp(first - top) : 0) + (has_b ? exp(second - top) : 0);
    const REAL weight_a = has_a ? exp(first - top) / sum : 0;
    const REAL weight_b = has_b ? exp(second - top) / sum : 0;
    const clattn_i64 at_a = place(p->out_offset[0], p->out_stride[0], batch, h, i);
    const clattn_i64 at_b = place(p->out_offset[1], p->out_stride[1], batch, h, i);
    const clattn_i64 at = place(p->out_offset[2], p->out_stride[2], batch, h, i);
    for (int c = 0; c < p->columns; ++c) {
        REAL from_a = has_a ? weight_a * LOAD(a, at_a + c * p->out_stride[0][3]) : 0;
        REAL from_b = has_b ? weight_b * LOAD(b, at_b + c * p->out_stride[1][3]) : 0;
        STORE(merged, at + c * p->out_stride[2][3], from_a + from_b);
    }
    lse[place(p->lse_offset[2], p->lse_stride[2], batch, h, i)] =
        has_a || has_b ? (float)(top + log(sum)) : -INFINITY;
}
