/* The validated values of one call of attention: lengths and scale resolved, tensors present exactly where the problem
 * has them. */
#ifndef CLATTN_SRC_CALL_H
#define CLATTN_SRC_CALL_H

#include "operation/forward.h"
#include "operation/problem.h"

struct call {
    struct operands operands; /* first: see attention_call */
    int64_t query_len, key_len;
    int64_t mask_key_len, bias_key_len; /* <= key_len; key_len where there is none */
    double scale;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    uint32_t first_plane, first_row, first_key, whole_heads; /* what dropout counts from, as in clattn_params */
};

/* The operands as attention's call, for operations whose calls are those of attention. */
static inline const struct call *attention_call(const struct operands *operands)
{
    return (const struct call *)operands;
}

/* `values` may be NULL: the defaults. */
clattn_status call_from_device(const struct problem *problem, const clattn_call *values, const clattn_tensors *tensors,
                               struct call *call);
clattn_status call_from_host(const struct problem *problem, const clattn_call *values,
                             const clattn_host_tensors *tensors, struct call *call);

/* operation_forward.largest */
clattn_status call_largest(const struct any_problem *problem, struct operands *call);

/* The steps of these, for operations whose tensors are more than the forward's: the public structs, of any version; the
 * values; what problem and values decide of the operands (forward_measure), whose places are read by then. */
clattn_status call_copy_tensors(const clattn_tensors *tensors, clattn_tensors *known);
clattn_status call_copy_host_tensors(const clattn_host_tensors *tensors, clattn_host_tensors *known);
clattn_status call_resolve(const struct problem *problem, const clattn_call *values, struct call *call);
void call_measure(const struct problem *problem, struct call *call);

/* Entry n of the page table of sequence b, in host memory; a hole where it is no page of the pool. */
int32_t call_page(const struct operands *operands, int64_t b, int64_t n);

/* The int32 values of a host call that shapes depend on: seams must not fall, sequences must not be
 * longer than the problem's lengths, key lengths must be 0 to key_len. */
clattn_status call_check_host_values(const struct problem *problem, const struct call *call);

#endif
