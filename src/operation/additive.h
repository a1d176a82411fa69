/* Additive attention as an operation: its tensors, its problem, validated, with softmax and value mixing as a
 * problem of attention whose bias holds the scores, and its calls. No device needed. */
#ifndef CLATTN_SRC_ADDITIVE_H
#define CLATTN_SRC_ADDITIVE_H

#include "clattn_layers.h"
#include "operation/operands.h"
#include "operation/problem.h"

/* T(ID, field, kind of field, axes, element, role, asked for by): rows as those of cl/forward_tensors.h. */
#define ADDITIVE_TENSORS(T)                                                                         \
    T(QUERY, query, ARRAY, (BATCH, ONE, ROWS, QUERY_DIM), TYPE, INPUT, ALWAYS)                      \
    T(KEY, key, ARRAY, (BATCH, ONE, KEYS, KEY_DIM), TYPE, INPUT, ALWAYS)                            \
    T(VALUE, value, ARRAY, (BATCH, ONE, KEYS, VALUE_DIM), TYPE, INPUT, ALWAYS)                      \
    T(WQ, wq, ARRAY, (ONE, ONE, HIDDEN_DIM, QUERY_DIM), TYPE, WEIGHT, ALWAYS)                       \
    T(WK, wk, ARRAY, (ONE, ONE, HIDDEN_DIM, KEY_DIM), TYPE, WEIGHT, ALWAYS)                         \
    T(SCORE, score, ARRAY, (ONE, ONE, ONE, HIDDEN_DIM), TYPE, WEIGHT, ALWAYS)                       \
    T(OUT, out, ARRAY, (BATCH, ONE, ROWS, VALUE_DIM), TYPE, OUTPUT, ALWAYS)                         \
    T(MASK, mask, TENSOR, (BATCH, ONE, ROWS, KEYS), BYTE, INPUT, FEATURE(MASK))                     \
    T(KEY_LENGTHS, key_lengths, ARRAY, (ONE, ONE, ONE, BATCH), INT, INPUT, FEATURE(KEY_LENGTHS))    \
    T(WEIGHTS, weights, ARRAY, (BATCH, ONE, ROWS, KEYS), FLOAT, OUTPUT, FIELD(weights))

/* ADDITIVE_QUERY, ADDITIVE_KEY, ... */
enum additive_tensor {
#define ID_OF_ROW(id, field, kind, axes, element, role, asked_by) ADDITIVE_##id,
    ADDITIVE_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
    ADDITIVE_TENSOR_COUNT
};

extern const struct operation operation_additive;

struct additive_problem {
    clattn_additive_problem p; /* every default resolved; p.strategy is NULL */
    struct problem attention;
};

clattn_status additive_problem_init(struct additive_problem *problem, const clattn_additive_problem *given);
clattn_status additive_call_from_device(const struct additive_problem *problem, const clattn_additive_arrays *arrays,
                                        struct operands *operands);
clattn_status additive_call_from_host(const struct additive_problem *problem,
                                      const clattn_additive_host_arrays *arrays, struct operands *operands);

#endif
