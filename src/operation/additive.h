/* Additive attention as an operation: its tensors, its problem, validated, with softmax and value mixing as a
 * problem of attention whose bias holds the scores, and its calls. No device needed. */
#ifndef CLATTN_SRC_ADDITIVE_H
#define CLATTN_SRC_ADDITIVE_H

#include "clattn_additive.h"
#include "operation/operands.h"
#include "operation/problem.h"

/* Rows as those of cl/forward_tensors.h. */
#define ADDITIVE_TENSORS(T)                                                                                            \
    T(QUERY, query, (BATCH, ONE, ROWS, QUERY_DIM), TYPE, IN, ARRAY, ALWAYS)                                            \
    T(KEY, key, (BATCH, ONE, KEYS, KEY_DIM), TYPE, IN, ARRAY, ALWAYS)                                                  \
    T(VALUE, value, (BATCH, ONE, KEYS, VALUE_DIM), TYPE, IN, ARRAY, ALWAYS)                                            \
    T(WQ, wq, (ONE, ONE, HIDDEN_DIM, QUERY_DIM), TYPE, WEIGHT, ARRAY, ALWAYS)                                          \
    T(WK, wk, (ONE, ONE, HIDDEN_DIM, KEY_DIM), TYPE, WEIGHT, ARRAY, ALWAYS)                                            \
    T(SCORE, score, (ONE, ONE, ONE, HIDDEN_DIM), TYPE, WEIGHT, ARRAY, ALWAYS)                                          \
    T(OUT, out, (BATCH, ONE, ROWS, VALUE_DIM), TYPE, OUT, ARRAY, ALWAYS)                                               \
    T(MASK, mask, (BATCH, ONE, ROWS, KEYS), BYTE, IN, TENSOR, FEATURE(MASK))                                           \
    T(KEY_LENGTHS, key_lengths, (ONE, ONE, ONE, BATCH), INT, IN, ARRAY, FEATURE(KEY_LENGTHS))                          \
    T(WEIGHTS, weights, (BATCH, ONE, ROWS, KEYS), FLOAT, OUT, ARRAY, FIELD(weights))

/* ADDITIVE_QUERY, ADDITIVE_KEY, ... */
enum additive_tensor {
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) ADDITIVE_##id,
    ADDITIVE_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        ADDITIVE_TENSOR_COUNT
};

extern const struct operation operation_additive;

struct additive_problem {
    clattn_additive_problem p; /* every default resolved; p.strategy is NULL: attention has it */
    struct problem attention;
};

/* Softmax and value mixing of a problem whose defaults are resolved, of its type and by any strategy. */
clattn_problem additive_attention(const clattn_additive_problem *p);

clattn_status additive_problem_init(struct additive_problem *problem, const clattn_additive_problem *given);

/* Sets what the problem decides of a call: extents, types, what is asked. The places are zero after it. `operation` is
 * the layer's, or one whose first rows are those of the layer's. */
void additive_measure(const struct additive_problem *problem, const struct operation *operation,
                      struct operands *operands);

/* The public structs of any version. */
clattn_status additive_copy_arrays(const clattn_additive_arrays *given, clattn_additive_arrays *known);
clattn_status additive_copy_host_arrays(const clattn_additive_host_arrays *given, clattn_additive_host_arrays *known);

/* Values in host memory of operands that begin with these tensors: weights finite, key lengths in their range. */
clattn_status additive_check_host_values(const struct additive_problem *problem, const struct operands *operands);

clattn_status additive_call_from_device(const struct additive_problem *problem, const clattn_additive_arrays *arrays,
                                        struct operands *operands);
clattn_status additive_call_from_host(const struct additive_problem *problem, const clattn_additive_host_arrays *arrays,
                                      struct operands *operands);

#endif
