/* The multi-head layer as an operation: its tensors, its problem, validated, with the attention inside it as a
 * problem of its own, and its calls. No device needed. */
#ifndef CLATTN_SRC_MHA_H
#define CLATTN_SRC_MHA_H

#include "clattn_layers.h"
#include "operation/any_call.h"
#include "operation/problem.h"

/* Rows as those of cl/forward/forward_tensors.h. PART(X): by CLATTN_MHA_X; SEPARATE(X): the same, where the weights are
 * not packed. Weights may be packed: FIRST_DIM is then the rows of Wq, Wk and Wv together. */
#define MHA_TENSORS(T)                                                                                                 \
    T(X, x, (ONE, BATCH, ROWS, MODEL_DIM), TYPE, IN, ARRAY, ALWAYS)                                                    \
    T(CONTEXT, context, (ONE, BATCH, CONTEXT_ROWS, CONTEXT_DIM), TYPE, IN, ARRAY, PART(CROSS))                         \
    T(Y, y, (ONE, BATCH, ROWS, OUT_DIM), TYPE, OUT, ARRAY, ALWAYS)                                                     \
    T(WQ, wq, (ONE, ONE, FIRST_DIM, MODEL_DIM), TYPE, WEIGHT, ARRAY, ALWAYS)                                           \
    T(WK, wk, (ONE, ONE, KEY_DIM, CONTEXT_DIM), TYPE, WEIGHT, ARRAY, NOT_PACKED)                                       \
    T(WV, wv, (ONE, ONE, VALUE_DIM, CONTEXT_DIM), TYPE, WEIGHT, ARRAY, NOT_PACKED)                                     \
    T(WO, wo, (ONE, ONE, OUT_DIM, HEADS_DIM), TYPE, WEIGHT, ARRAY, ALWAYS)                                             \
    T(BQ, bq, (ONE, ONE, ONE, FIRST_DIM), TYPE, WEIGHT, ARRAY, PART(BIAS_QUERY))                                       \
    T(BK, bk, (ONE, ONE, ONE, KEY_DIM), TYPE, WEIGHT, ARRAY, SEPARATE(BIAS_KEY))                                       \
    T(BV, bv, (ONE, ONE, ONE, VALUE_DIM), TYPE, WEIGHT, ARRAY, SEPARATE(BIAS_VALUE))                                   \
    T(BO, bo, (ONE, ONE, ONE, OUT_DIM), TYPE, WEIGHT, ARRAY, PART(BIAS_OUT))                                           \
    T(MASK, mask, (BATCH, QUERY_HEADS, ROWS, CONTEXT_ROWS), BYTE, IN, TENSOR, FEATURE(MASK))                           \
    T(KEY_LENGTHS, key_lengths, (ONE, ONE, ONE, BATCH), INT, IN, ARRAY, FEATURE(KEY_LENGTHS))                          \
    T(WEIGHTS, weights, (BATCH, WEIGHT_HEADS, ROWS, CONTEXT_ROWS), REAL, OUT, ARRAY, FIELD(weights))

/* MHA_X, MHA_CONTEXT, ... */
enum mha_tensor {
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) MHA_##id,
    MHA_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        MHA_TENSOR_COUNT
};

extern const struct operation operation_mha;
clattn_status reference_mha(const struct any_problem *problem, const struct operands *call);

struct mha_problem {
    struct any_problem any;                /* first: see mha_problem_of */
    clattn_mha_problem p;                  /* every default resolved; p.strategy is NULL: attention has it */
    int64_t query_dim, key_dim, value_dim; /* rows of Wq, Wk, Wv */
    int64_t heads_dim;                     /* columns of Wo */
    struct problem attention;
};

static inline const struct mha_problem *mha_problem_of(const struct any_problem *any)
{
    return (const struct mha_problem *)any;
}

/* The attention inside a layer whose defaults are resolved, of the layer's type and by any strategy. */
clattn_problem mha_attention(const clattn_mha_problem *p);

/* For operations whose problems begin with this one, and whose first tensors are the same: types and extents of a call,
 * and what is asked for; values in host memory: weights finite, key lengths in their range. */
clattn_status mha_measure(const struct any_problem *problem, const void *values, struct operands *call);
clattn_status mha_check_values(const struct any_problem *problem, const struct operands *call);

#endif
