/* The gradients of additive attention as an operation: the forward's tensors, but for its outputs, and those of the
 * gradients; its problem and its calls, validated. No device needed. */
#ifndef CLATTN_SRC_ADDITIVE_BACKWARD_H
#define CLATTN_SRC_ADDITIVE_BACKWARD_H

#include "operation/additive.h"
#include "operation/backward.h"

/* Rows as those of ADDITIVE_TENSORS; GRADIENT(X): by CLATTN_ADDITIVE_GRADIENT_X. */
#define ADDITIVE_GRADIENT_TENSORS(T)                                                                                   \
    T(DOUT, dout, (BATCH, ONE, ROWS, VALUE_DIM), TYPE, IN, ARRAY, ALWAYS)                                              \
    T(DQUERY, dquery, (BATCH, ONE, ROWS, QUERY_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(QUERY))                        \
    T(DKEY, dkey, (BATCH, ONE, KEYS, KEY_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(KEY))                                \
    T(DVALUE, dvalue, (BATCH, ONE, KEYS, VALUE_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(VALUE))                        \
    T(DWQ, dwq, (ONE, ONE, HIDDEN_DIM, QUERY_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(WQ))                             \
    T(DWK, dwk, (ONE, ONE, HIDDEN_DIM, KEY_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(WK))                               \
    T(DSCORE, dscore, (ONE, ONE, ONE, HIDDEN_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(SCORE))

/* Behind ADDITIVE_QUERY, ADDITIVE_KEY, ...: ADDITIVE_DOUT, ADDITIVE_DQUERY, ... */
enum additive_gradient_tensor {
    ADDITIVE_GRADIENT_BEFORE_FIRST = ADDITIVE_TENSOR_COUNT - 1,
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) ADDITIVE_##id,
    ADDITIVE_GRADIENT_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        ADDITIVE_BACKWARD_TENSOR_COUNT
};

extern const struct operation operation_additive_backward;
clattn_status reference_additive_backward(const struct any_problem *problem, const struct operands *call);

/* What dS is behind: all but dvalue. */
#define ADDITIVE_GRADIENTS_OF_SCORES                                                                                   \
    (CLATTN_ADDITIVE_GRADIENT_QUERY | CLATTN_ADDITIVE_GRADIENT_KEY | CLATTN_ADDITIVE_GRADIENT_WQ |                     \
     CLATTN_ADDITIVE_GRADIENT_WK | CLATTN_ADDITIVE_GRADIENT_SCORE)

/* Computed in float32. */
struct additive_backward_problem {
    struct additive_problem layer;      /* first: see additive_backward_problem_of */
    clattn_additive_backward_problem p; /* p.forward is NULL: layer has it */
    clattn_type type;                   /* of the gradients */
    struct problem forward;             /* softmax and value mixing in float32, with lse */
    struct backward_problem backward;   /* dvalue; valid where that is asked for */
};

static inline const struct additive_backward_problem *additive_backward_problem_of(const struct any_problem *any)
{
    return (const struct additive_backward_problem *)any;
}

static inline int additive_backward_wants(const struct additive_backward_problem *problem, uint32_t gradients)
{
    return (problem->p.gradients & gradients) != 0;
}

#endif
