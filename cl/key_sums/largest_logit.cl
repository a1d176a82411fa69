/* The largest logit of each head, of maxima that other kernels left, some of each plane (batch * head):
 *
 *     maxima [plane][count]  ->  [plane][ceil(count / KEY_SUMS_MAXIMA)] -> ... -> one: max_logit
 *
 *     global id 0: plane * parts + part of its maxima
 *
 * All along one axis: NVIDIA's GPUs take no more than 65,535 work-groups along the others. The largest of some numbers
 * has no rounding, and so no order. */
#include "common/rehearsal.clh"
#include "common/types.clh"
#include "key_sums/larger.clh"

/* `count` maxima of each plane, from from_at on, become `parts`; one: max_logit itself. */
__kernel LEAST_SUB_GROUP void largest_logit(const clattn_key_sums_places places, __global REAL *maxima,
                                            __global REAL *max_logit, clattn_i64 from_at, clattn_i64 to_at, int count,
                                            int parts, int heads)
{
    LEAVE_REHEARSAL(parts)
    const size_t at = get_global_id(0);
    const int plane = (int)(at / parts), part = (int)(at % parts);
    const clattn_i64 from = from_at + (clattn_i64)plane * count;
    REAL largest = -INFINITY;
    for (int n = part * KEY_SUMS_MAXIMA; n < min((part + 1) * KEY_SUMS_MAXIMA, count); ++n) {
        largest = larger_logit(largest, maxima[from + n]);
    }
    if (parts > 1) {
        maxima[to_at + (clattn_i64)plane * parts + part] = largest;
    } else {
        max_logit[places.max_offset + plane / heads * places.max_stride[0] + plane % heads * places.max_stride[1]] =
            largest;
    }
}
