/* Rotary embedding as an operation: its tensors, its problem and its calls, validated. No device needed. */
#ifndef CLATTN_SRC_ROTARY_H
#define CLATTN_SRC_ROTARY_H

#include "operation/any_call.h"
#include "operation/norms.h"
#include "operation/turning.h"

/* ROTARY_COSINE, ... ROTARY_X, ROTARY_OUT */
enum rotary_tensor {
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) ROTARY_##id,
    CLATTN_ROTARY_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        ROTARY_TENSOR_COUNT
};

extern const struct operation operation_rotary;
clattn_status reference_rotary(const struct any_problem *problem, const struct operands *call);

struct rotary_problem {
    struct any_problem any;  /* first: see rotary_problem_of */
    clattn_rotary_problem p; /* every default resolved; p.strategy is NULL */
    struct turning turning;
    struct norms norms;
};

static inline const struct rotary_problem *rotary_problem_of(const struct any_problem *any)
{
    return (const struct rotary_problem *)any;
}

struct rotary_call {
    struct operands operands; /* first: see rotary_call_of */
    int64_t query_len;
};

static inline const struct rotary_call *rotary_call_of(const struct operands *operands)
{
    return (const struct rotary_call *)operands;
}

#endif
