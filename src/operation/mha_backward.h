/* The gradients of the multi-head layer as an operation: the layer's tensors, but for its outputs, and those of the
 * gradients; its problem and its calls, validated. No device needed. */
#ifndef CLATTN_SRC_MHA_BACKWARD_H
#define CLATTN_SRC_MHA_BACKWARD_H

#include "operation/backward.h"
#include "operation/mha.h"

/* Rows as those of MHA_TENSORS; GRADIENT(X): by CLATTN_MHA_GRADIENT_X. */
#define MHA_GRADIENT_TENSORS(T)                                                                                        \
    T(DY, dy, (ONE, BATCH, ROWS, OUT_DIM), TYPE, IN, ARRAY, ALWAYS)                                                    \
    T(DX, dx, (ONE, BATCH, ROWS, MODEL_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(X))                                    \
    T(DCONTEXT, dcontext, (ONE, BATCH, CONTEXT_ROWS, CONTEXT_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(CONTEXT))        \
    T(DWQ, dwq, (ONE, ONE, FIRST_DIM, MODEL_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(WQ))                              \
    T(DWK, dwk, (ONE, ONE, KEY_DIM, CONTEXT_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(WK))                              \
    T(DWV, dwv, (ONE, ONE, VALUE_DIM, CONTEXT_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(WV))                            \
    T(DWO, dwo, (ONE, ONE, OUT_DIM, HEADS_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(WO))                                \
    T(DBQ, dbq, (ONE, ONE, ONE, FIRST_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(BQ))                                    \
    T(DBK, dbk, (ONE, ONE, ONE, KEY_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(BK))                                      \
    T(DBV, dbv, (ONE, ONE, ONE, VALUE_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(BV))                                    \
    T(DBO, dbo, (ONE, ONE, ONE, OUT_DIM), GRADIENT, UPDATED, ARRAY, GRADIENT(BO))

/* Behind MHA_X, MHA_CONTEXT, ...: MHA_DY, MHA_DX, ... */
enum mha_gradient_tensor {
    MHA_GRADIENT_BEFORE_FIRST = MHA_TENSOR_COUNT - 1,
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) MHA_##id,
    MHA_GRADIENT_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        MHA_BACKWARD_TENSOR_COUNT
};

extern const struct operation operation_mha_backward;
clattn_status reference_mha_backward(const struct any_problem *problem, const struct operands *call);

/* Query, key and value are the parts of a layer: 0, 1, 2. */
#define MHA_PARTS 3

struct mha_backward_problem {
    struct mha_problem layer;         /* first: see mha_backward_problem_of */
    clattn_mha_backward_problem p;    /* p.forward is NULL: layer has it */
    clattn_type type;                 /* of the gradients */
    clattn_type real;                 /* that is computed in */
    uint32_t attention_gradients;     /* clattn_gradient: of the parts that something asks for */
    struct problem forward;           /* the attention inside, in `real`, with lse */
    struct backward_problem backward; /* its gradients; valid where some of them are needed */
};

static inline const struct mha_backward_problem *mha_backward_problem_of(const struct any_problem *any)
{
    return (const struct mha_backward_problem *)any;
}

static inline int mha_backward_wants(const struct mha_backward_problem *problem, uint32_t gradients)
{
    return (problem->p.gradients & gradients) != 0;
}

#endif
