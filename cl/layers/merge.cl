/* merge: attention over disjoint sets of keys -> attention over all of them (Milakov and Gimelshein 2018, section 3.1).
 * One work-item a row, so that a row's lse is read before it is written: the result may be one of the partials.
 *
 *     global id 0: row        1: head        2: batch
 *
 *     lse = ln(sum_n exp(lse_n)),  out_c = sum_n exp(lse_n - lse) out_nc        in the order of n
 *
 * A partial with lse = -inf saw no key: its out is not read, so that garbage there does no harm. -D TYPE is that of the
 * partials, -D OUT_TYPE that of the result. More partials than one command takes are merged in turns: sums go on
 * undivided in `state`, each with what rounding took away from it, so that no error grows with the partials. */
#include "common/sum_and_rest.clh"
#include "common/types.clh"
#include "layers/merge_params.h"

/* Unrolled: GPUs have no registers that are indexed at run time. */
#define FOR_PARTIALS _Pragma("unroll") for (int n = 0; n < MERGE_AT_ONCE; ++n) if (n < p->count)

DEFINE_ADD_EXACTLY(add_exactly, REAL)

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

__kernel void merge(const clattn_merge_params params, PARTIAL_OUT(0), PARTIAL_OUT(1), PARTIAL_OUT(2), PARTIAL_OUT(3),
                    PARTIAL_OUT(4), PARTIAL_OUT(5), PARTIAL_OUT(6), PARTIAL_OUT(7),
                    __global STORAGE_OF(OUT_TYPE) *merged, PARTIAL_LSE(0), PARTIAL_LSE(1), PARTIAL_LSE(2),
                    PARTIAL_LSE(3), PARTIAL_LSE(4), PARTIAL_LSE(5), PARTIAL_LSE(6), PARTIAL_LSE(7),
                    __global float *merged_lse, __global REAL *state)
{
    const clattn_merge_params *p = &params;
    const int i = (int)get_global_id(0), h = (int)get_global_id(1), b = (int)get_global_id(2);
    if (i >= p->rows) {
        return;
    }
    __global const STORAGE *out[MERGE_AT_ONCE] = { out_0, out_1, out_2, out_3, out_4, out_5, out_6, out_7 };
    __global const float *lse[MERGE_AT_ONCE] = { lse_0, lse_1, lse_2, lse_3, lse_4, lse_5, lse_6, lse_7 };
    __global REAL *row = state + (((size_t)b * p->heads + h) * p->rows + i) * MERGE_STATE(p->columns);
    REAL weight[MERGE_AT_ONCE], top = -INFINITY, before = -INFINITY, sum = 0, sum_rest = 0;
    int seen[MERGE_AT_ONCE];
    FOR_PARTIALS {
        weight[n] = lse[n][lse_place(p, n, b, h, i)];
        seen[n] = weight[n] != -INFINITY;
        top = n == 0 || !(top > weight[n]) ? weight[n] : top;
    }
    if (!p->is_first) {
        before = row[MERGE_TOP];
        sum = row[MERGE_SUM];
        sum_rest = row[MERGE_SUM_REST];
    }
    /* The largest lse rises by 1 at least, so that there are few rescales, each of which leaves a rounding. */
    top = top > before + 1 ? top : before;
    REAL factor = top == before ? (REAL)1 : exp(before - top);
    sum *= factor;
    sum_rest *= factor;
    FOR_PARTIALS {
        weight[n] = seen[n] ? exp(weight[n] - top) : 0;
        add_exactly(&sum, &sum_rest, weight[n]);
    }
    const int any = sum != 0;
    if (p->is_last && any) {
        factor /= sum + sum_rest;
        FOR_PARTIALS weight[n] = seen[n] ? weight[n] / (sum + sum_rest) : 0;
    }
    for (int c = 0; c < p->columns; ++c) {
        __global REAL *column = row + MERGE_COLUMN(c);
        REAL total = 0, total_rest = 0;
        if (!p->is_first) {
            total = column[0] * factor;
            total_rest = column[1] * factor;
        }
        FOR_PARTIALS {
            const clattn_i64 at = out_place(p, n, b, h, i) + c * p->out_stride[n][3];
            add_exactly(&total, &total_rest, seen[n] ? weight[n] * LOAD(out[n], at) : 0);
        }
        if (p->is_last) {
            OUT_STORE(merged, out_place(p, MERGED, b, h, i) + c * p->out_stride[MERGED][3], total + total_rest);
        } else {
            column[0] = total;
            column[1] = total_rest;
        }
    }
    if (p->is_last) {
        merged_lse[lse_place(p, MERGED, b, h, i)] = any ? (float)(top + log(sum + sum_rest)) : -INFINITY;
    } else {
        row[MERGE_TOP] = top;
        row[MERGE_SUM] = sum;
        row[MERGE_SUM_REST] = sum_rest;
    }
}
