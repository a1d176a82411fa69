/* What the weights of attention say, as an operation: the forward's tensors, all of them inputs, sums of weights and
 * largest logits; its problem and its calls, validated. No device needed. */
#ifndef CLATTN_SRC_KEY_SUMS_H
#define CLATTN_SRC_KEY_SUMS_H

#include "clattn_key_sums.h"
#include "operation/call.h"
#include "operation/problem.h"

/* Behind TENSOR_QUERY, TENSOR_KEY, ..., the further buffers of pools included. */
enum key_sums_id { SUMS_KEY_SUMS = FORWARD_TENSOR_COUNT, SUMS_MAX_LOGIT, KEY_SUMS_TENSOR_COUNT };

extern const struct operation operation_key_sums;
clattn_status reference_key_sums(const struct any_problem *problem, const struct operands *call);

/* Begins with what attention_problem sees: the forward's problem, without what is about values. */
struct key_sums_problem {
    struct problem attention;
    clattn_key_sums_problem p; /* p.forward is NULL: attention has it */
};

static inline const struct key_sums_problem *key_sums_problem(const struct any_problem *any)
{
    return (const struct key_sums_problem *)any;
}

static inline int key_sums_wants(const struct any_problem *any, uint32_t outputs)
{
    return (key_sums_problem(any)->p.outputs & outputs) != 0;
}

/* The first row whose weights are summed, of a sequence of so many. */
static inline int64_t key_sums_first_row(const struct any_problem *any, int64_t query_len)
{
    const int64_t last_rows = key_sums_problem(any)->p.last_rows;
    return last_rows > 0 && last_rows < query_len ? query_len - last_rows : 0;
}

#endif
