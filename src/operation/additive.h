/* Additive attention as an operation: its tensors, its problem, validated, with softmax and value mixing as a
 * problem of attention whose bias holds the scores, and its calls. No device needed. */
#ifndef CLATTN_SRC_ADDITIVE_H
#define CLATTN_SRC_ADDITIVE_H

#include "clattn_additive.h"
#include "operation/any_call.h"
#include "operation/problem.h"

/* Rows as those of cl/forward/forward_tensors.h. */
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
clattn_status reference_additive(const struct any_problem *problem, const struct operands *call);

struct additive_problem {
    struct any_problem any;    /* first: see additive_problem_of */
    clattn_additive_problem p; /* every default resolved; p.strategy is NULL: attention has it */
    struct problem attention;
};

static inline const struct additive_problem *additive_problem_of(const struct any_problem *any)
{
    return (const struct additive_problem *)any;
}

/* Softmax and value mixing of a problem whose defaults are resolved, of its type and by any strategy. */
clattn_problem additive_attention(const clattn_additive_problem *p);

/* For operations whose problems begin with this one, and whose first tensors are the same: types and extents of a call,
 * and what is asked for; values in host memory: weights finite, key lengths in their range. */
clattn_status additive_measure(const struct any_problem *problem, const void *values, struct operands *call);
clattn_status additive_check_values(const struct any_problem *problem, const struct operands *call);

#endif
