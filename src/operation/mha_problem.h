/* A multi-head layer's problem, validated: dimensions resolved, its arrays described, and the attention
 * inside it as a problem of its own. No device needed; used by mha.c and by the reference. */
#ifndef CLATTN_SRC_MHA_PROBLEM_H
#define CLATTN_SRC_MHA_PROBLEM_H

#include "operation/layer.h"
#include "operation/problem.h"

/* In the order of the public structs. */
enum mha_array {
    MHA_X,
    MHA_CONTEXT,
    MHA_Y,
    MHA_WQ,
    MHA_WK,
    MHA_WV,
    MHA_WO,
    MHA_BQ,
    MHA_BK,
    MHA_BV,
    MHA_BO,
    MHA_MASK,
    MHA_KEY_LENGTHS,
    MHA_WEIGHTS,
    MHA_ARRAYS
};

struct mha_problem {
    clattn_mha_problem p; /* every default resolved; p.strategy is NULL: attention has it */
    int64_t query_dim, key_dim, value_dim; /* rows of Wq, Wk, Wv */
    int64_t heads_dim;                     /* columns of Wo */
    struct layer_array arrays[MHA_ARRAYS];
    struct problem attention;
};

/* Where the arrays of a call are. */
struct mha_call {
    struct layer_array mask; /* as the problem's, with the count that the strides reach */
    int64_t mask_stride[4];
    struct layer_place places[MHA_ARRAYS];
    cl_mem workspace;
};

clattn_status mha_problem_init(struct mha_problem *problem, const clattn_mha_problem *given);

/* Checks that the arrays are there; not how large buffers are. */
clattn_status mha_call_from_device(const struct mha_problem *problem, const clattn_mha_arrays *arrays,
                                   struct mha_call *call);

/* Also that all weights are finite and key lengths in their range. */
clattn_status mha_call_from_host(const struct mha_problem *problem,
                                 const clattn_mha_host_arrays *arrays, struct mha_call *call);

/* How large array `id` of the call is. */
int64_t mha_call_count(const struct mha_problem *problem, const struct mha_call *call,
                       enum mha_array id);

#endif
