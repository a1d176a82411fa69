/* merge: attention over disjoint sets of keys -> attention over all of them (Milakov and Gimelshein 2018, section 3.1).
 * One work-item a row, so that a row's lse is read before it is written: the result may be one of the partials.
 *
 *     global id 0: row        1: head        2: batch
 *
 *     lse = ln(sum_n exp(lse_n)),  out_c = sum_n exp(lse_n - lse) out_nc        in the order of n
 *
 * A partial with lse = -inf saw no key: its out is not read, so that garbage there does no harm. -D TYPE is that of the
 * partials, -D OUT_TYPE that of the result; a partial that holds the result so far (-D FIRST_TYPE) has its type. */
#include "merge_params.h"
#include "types.clh"

#ifndef FIRST_TYPE
#define FIRST_TYPE TYPE
#endif

/* Unrolled: GPUs have no registers that are indexed at run time. */
#define FOR_PARTIALS_FROM(first) _Pragma("unroll") for (int n = first; n < MERGE_AT_ONCE; ++n) if (n < p->count)
#define FOR_PARTIALS FOR_PARTIALS_FROM(0)

static inline clattn_i64 out_place(const clattn_merge_params *p, int n, int b, int h, int i)
{
    return p->out_offset[n] + b * p->out_stride[n][0] + h * p->out_stride[n][1] + i * p->out_stride[n][2];
}

static inline clattn_i64 lse_place(const clattn_merge_params *p, int n, int b, int h, int i)
{
    return p->lse_offset[n] + b * p->lse_stride[n][0] + h * p->lse_stride[n][1] + i * p->lse_stride[n][2];
}

#define PARTIAL_OUT(n) __global const STORAGE *out_##n
#define PARTIAL_LSE(n) __global const float *lse_##n

__kernel void merge(const clattn_merge_params params, __global const STORAGE_OF(FIRST_TYPE) *out_0, PARTIAL_OUT(1),
                    PARTIAL_OUT(2), PARTIAL_OUT(3), PARTIAL_OUT(4), PARTIAL_OUT(5), PARTIAL_OUT(6), PARTIAL_OUT(7),
                    __global STORAGE_OF(OUT_TYPE) *merged, PARTIAL_LSE(0), PARTIAL_LSE(1), PARTIAL_LSE(2),
                    PARTIAL_LSE(3), PARTIAL_LSE(4), PARTIAL_LSE(5), PARTIAL_LSE(6), PARTIAL_LSE(7),
                    __global float *merged_lse)
{
    const clattn_merge_params *p = &params;
    const int i = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    if (i >= p->rows) {
        return;
    }
    __global const STORAGE *out[MERGE_AT_ONCE] = { 0, out_1, out_2, out_3, out_4, out_5, out_6, out_7 };
    __global const float *lse[MERGE_AT_ONCE] = { lse_0, lse_1, lse_2, lse_3, lse_4, lse_5, lse_6, lse_7 };
    REAL weight[MERGE_AT_ONCE], top = -INFINITY, sum = 0;
    int seen[MERGE_AT_ONCE], any = 0;
    FOR_PARTIALS {
        weight[n] = lse[n][lse_place(p, n, b, h, i)];
        seen[n] = weight[n] != -INFINITY;
        any |= seen[n];
        top = n == 0 || !(top > weight[n]) ? weight[n] : top;
    }
    FOR_PARTIALS {
        weight[n] = seen[n] ? exp(weight[n] - top) : 0;
        sum += weight[n];
    }
    FOR_PARTIALS weight[n] = seen[n] ? weight[n] / sum : 0;
    for (int c = 0; c < p->columns; ++c) {
        const clattn_i64 first_at = out_place(p, 0, b, h, i) + c * p->out_stride[0][3];
        REAL total = seen[0] ? weight[0] * LOAD_OF(FIRST_TYPE, out_0, first_at) : 0;
        FOR_PARTIALS_FROM(1) {
            total += seen[n] ? weight[n] * LOAD(out[n], out_place(p, n, b, h, i) + c * p->out_stride[n][3]) : 0;
        }
        OUT_STORE(merged, out_place(p, MERGED, b, h, i) + c * p->out_stride[MERGED][3], total);
    }
    merged_lse[lse_place(p, MERGED, b, h, i)] = any ? (float)(top + log(sum)) : -INFINITY;
}
