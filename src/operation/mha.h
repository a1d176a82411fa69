/* The multi-head layer as an operation: its tensors, its problem, validated, with the attention inside it as a
 * problem of its own, and its calls. No device needed. */
#ifndef CLATTN_SRC_MHA_H
#define CLATTN_SRC_MHA_H

#include "clattn_layers.h"
#include "operation/operands.h"
#include "operation/problem.h"

/* Rows as those of cl/forward_tensors.h. PART(X): by CLATTN_MHA_X; SEPARATE(X): the same, where the weights are not
 * packed. Weights may be packed: FIRST_DIM is then the rows of Wq, Wk and Wv together. */
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

struct mha_problem {
    clattn_mha_problem p;                  /* every default resolved; p.strategy is NULL: attention has it */
    int64_t query_dim, key_dim, value_dim; /* rows of Wq, Wk, Wv */
    int64_t heads_dim;                     /* columns of Wo */
    struct problem attention;
};

/* The attention inside a layer whose defaults are resolved, of the layer's type and by any strategy. */
clattn_problem mha_attention(const clattn_mha_problem *p);

clattn_status mha_problem_init(struct mha_problem *problem, const clattn_mha_problem *given);

/* Sets what the problem decides of a call: extents, types, what is asked. The places are zero after it. `operation` is
 * the layer's, or one whose first rows are those of the layer's. */
void mha_measure(const struct mha_problem *problem, const struct operation *operation, struct operands *operands);

/* The public structs of any version. */
clattn_status mha_copy_arrays(const clattn_mha_arrays *given, clattn_mha_arrays *known);
clattn_status mha_copy_host_arrays(const clattn_mha_host_arrays *given, clattn_mha_host_arrays *known);

/* Values in host memory of operands that begin with the layer's tensors: weights finite, key lengths in their range. */
clattn_status mha_check_host_values(const struct mha_problem *problem, const struct operands *operands);

/* Checks that the arrays are there; not how large buffers are. */
clattn_status mha_call_from_device(const struct mha_problem *problem, const clattn_mha_arrays *arrays,
                                   struct operands *operands);

/* Also that all weights are finite and key lengths in their range. */
clattn_status mha_call_from_host(const struct mha_problem *problem, const clattn_mha_host_arrays *arrays,
                                 struct operands *operands);

#endif
