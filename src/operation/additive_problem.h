/* Additive attention's problem, validated: defaults resolved, its arrays described, and the softmax and value
 * mixing inside it as an attention problem whose bias holds the scores. No device needed. */
#ifndef CLATTN_SRC_ADDITIVE_PROBLEM_H
#define CLATTN_SRC_ADDITIVE_PROBLEM_H

#include "operation/layer.h"
#include "operation/problem.h"

/* In the order of the public structs; outputs are OUT and WEIGHTS. */
enum additive_array {
    ADDITIVE_QUERY,
    ADDITIVE_KEY,
    ADDITIVE_VALUE,
    ADDITIVE_WQ,
    ADDITIVE_WK,
    ADDITIVE_SCORE,
    ADDITIVE_OUT,
    ADDITIVE_MASK,
    ADDITIVE_KEY_LENGTHS,
    ADDITIVE_WEIGHTS,
    ADDITIVE_ARRAYS
};

struct additive_problem {
    clattn_additive_problem p; /* every default resolved; p.strategy is NULL */
    struct layer_array arrays[ADDITIVE_ARRAYS];
    struct problem attention;
};

struct additive_call {
    struct layer_array mask; /* with the count that the strides reach */
    int64_t mask_stride[4];  /* batch, head, row, key */
    struct layer_place places[ADDITIVE_ARRAYS];
    cl_mem workspace;
};

clattn_status additive_problem_init(struct additive_problem *problem,
                                    const clattn_additive_problem *given);
clattn_status additive_call_from_device(const struct additive_problem *problem,
                                        const clattn_additive_arrays *arrays, struct additive_call *call);
clattn_status additive_call_from_host(const struct additive_problem *problem,
                                      const clattn_additive_host_arrays *arrays,
                                      struct additive_call *call);
int64_t additive_call_count(const struct additive_problem *problem, const struct additive_call *call,
                            enum additive_array id);

#endif
