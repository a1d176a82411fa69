/* The gradients of attention as an operation: the forward's tensors, all of them inputs, and those of the gradients;
 * its problem and its calls, validated. No device needed. */
#ifndef CLATTN_SRC_BACKWARD_H
#define CLATTN_SRC_BACKWARD_H

#include "cl/backward/backward_params.h"
#include "clattn_backward.h"
#include "operation/call.h"
#include "operation/gradient_rules.h"
#include "operation/gradient_tensors.h"
#include "operation/problem.h"

/* Behind TENSOR_QUERY, TENSOR_KEY, ...: GRADIENT_DOUT, GRADIENT_DLSE, GRADIENT_DQUERY, ... */
enum gradient_id {
    GRADIENT_BEFORE_FIRST = ALL_TENSOR_COUNT - 1,
#define ID_OF_ROW(id, name, axes, element, access, place, asked_by) GRADIENT_##id,
    CLATTN_GRADIENT_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        BACKWARD_TENSOR_COUNT
};

extern const struct operation operation_backward;
clattn_status reference_backward(const struct any_problem *problem, const struct operands *call);

/* Begins with what attention_problem sees: the forward's problem, with CLATTN_WITH_LSE. */
struct backward_problem {
    struct problem attention;
    clattn_backward_problem p;                                   /* p.forward is NULL: attention has it */
    clattn_type dquery_type, dkey_type, dvalue_type, dbias_type; /* resolved */
};

static inline const struct backward_problem *backward_problem(const struct any_problem *any)
{
    return (const struct backward_problem *)any;
}

/* Flags of the forward's problem that have a derivative; others are refused until one is written. */
clattn_status gradients_check_flags(uint32_t flags);

static inline clattn_status backward_problem_init(struct backward_problem *problem,
                                                  const clattn_backward_problem *given)
{
    return any_problem_init(&problem->attention.any, &operation_backward, given);
}

/* What calls have beside the forward's tensors: which are asked for, which are not read, their types. */
void backward_ask(const struct backward_problem *problem, struct operands *operands);

/* call->operands are of operation_backward. `values` may be NULL. */
static inline clattn_status backward_call_from_device(const struct backward_problem *problem, const clattn_call *values,
                                                      const clattn_tensors *tensors, const clattn_gradients *gradients,
                                                      struct call *call)
{
    return any_call_from_device(&problem->attention.any, GIVEN(values, tensors, gradients), &call->operands);
}

static inline clattn_status backward_call_from_host(const struct backward_problem *problem, const clattn_call *values,
                                                    const clattn_host_tensors *tensors,
                                                    const clattn_host_gradients *gradients, struct call *call)
{
    return any_call_from_host(&problem->attention.any, GIVEN(values, tensors, gradients), &call->operands);
}

/* Whether a gradient (CLATTN_GRADIENT_*) is asked for, and added to what is there. */
static inline int backward_wants(const struct backward_problem *problem, uint32_t gradients)
{
    return (problem->p.gradients & gradients) != 0;
}

#endif
