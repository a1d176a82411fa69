/* The validated values of one call of attention: lengths and scale resolved, tensors present exactly where the problem
 * has them. */
#ifndef CLATTN_SRC_CALL_H
#define CLATTN_SRC_CALL_H

#include "operation/any_call.h"
#include "operation/problem.h"

struct call {
    struct operands operands; /* first: see attention_call */
    int64_t query_len, key_len;
    int64_t mask_first_key, mask_key_len, bias_key_len; /* from that key on, <= key_len in all; all where not said */
    double scale;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    uint32_t first_plane, first_row, first_key, whole_heads; /* what dropout counts from, as in clattn_params */
    float code_scalars[CODE_SCALARS_MOST];
};

/* The operands as attention's call, for operations whose calls are those of attention. */
static inline const struct call *attention_call(const struct operands *operands)
{
    return (const struct call *)operands;
}

/* `values` may be NULL: the defaults. */
static inline clattn_status call_from_device(const struct problem *problem, const clattn_call *values,
                                             const clattn_tensors *tensors, struct call *call)
{
    return any_call_from_device(&problem->any, GIVEN(values, tensors), &call->operands);
}

static inline clattn_status call_from_host(const struct problem *problem, const clattn_call *values,
                                           const clattn_host_tensors *tensors, struct call *call)
{
    return any_call_from_host(&problem->any, GIVEN(values, tensors), &call->operands);
}

/* For operations whose problems and calls are attention's, operation_forward the first of them. */
clattn_status call_measure(const struct any_problem *problem, const void *values, struct operands *call);

/* The int32 values that shapes depend on: seams must not fall, sequences must not be longer than the problem's lengths,
 * key lengths must be 0 to key_len. */
clattn_status call_check_values(const struct any_problem *problem, const struct operands *call);

/* Entry n of the page table of sequence b and of a key/value head, in host memory; a hole where it is no page of the
 * pool. */
int32_t call_page(const struct operands *operands, int64_t b, int64_t kv_head, int64_t n);

#endif
