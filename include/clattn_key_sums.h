/* What the weights of attention say: how much each key gets, and how large logits become. What they share with clattn.h
 * (contexts, plans, calls, types, masks, ownership, threads, how structs grow) is said there. */
#ifndef CLATTN_KEY_SUMS_H
#define CLATTN_KEY_SUMS_H

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sums of weights ------------------------------------------------------------------------ */

/* Made beside clattn_enqueue_forward, of its inputs and its lse, without a matrix of weights:
 *
 *     clattn_problem forward = CLATTN_PROBLEM_INIT;             as the forward's, with CLATTN_WITH_LSE there
 *     clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
 *     problem.forward = &forward;
 *     problem.outputs = CLATTN_KEY_SUMS | CLATTN_MAX_LOGIT;
 *     problem.last_rows = 32;
 *     clattn_key_sums_plan_create(context, &problem, &plan);
 *     clattn_enqueue_key_sums(plan, queue, NULL, &tensors, &sums, 0, NULL, &done);
 *
 * With s and allowed of the formula in clattn.h, query_len[b] the rows of a sequence, and R for last_rows:
 *
 *     key_sums[b,h,j]  = sum over i from max(query_len[b] - R, 0) to query_len[b] - 1 of exp(s - lse[b,h,i]),
 *                        0 where not allowed
 *     max_logit[b,h]   = max of s over all rows i and keys j that are allowed; -inf where none is
 *
 * key_sums is what caches are thinned out by: keys that the last rows of a prompt look at stay (Li et al., "SnapKV: LLM
 * Knows What You Are Looking for Before Generation", 2024), or those that all rows so far did (Zhang et al., "H2O:
 * Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models", 2023). max_logit is what MuonClip
 * rescales queries and keys by (Moonshot AI, "Kimi K2: Open Agentic Intelligence", 2025, section 2.1).
 *
 * Weights are those before dropout, whose fields do not matter. A sink has its share of lse, and no sum of its own. A
 * row whose lse is -inf adds nothing. lse may be that of more keys than the call has (of a ring of devices, of
 * clattn_merge): sums are those keys' own share then. A NaN in a pair that is allowed makes NaN of its key's sum and of
 * its head's max_logit; pairs that are not allowed say nothing.
 *
 * Rows are added in a fixed order, by levels whose error does not grow with their number: the same inputs on the same
 * device give the same bits, whatever else is in the batch and whichever outputs are asked for. docs/numbers.md has the
 * bound: beside that of sums, a weight has the rounding of the lse that was given, 2^-24 |lse|. */
typedef enum clattn_key_sums_output {
    CLATTN_KEY_SUMS = 1 << 0, /* needs tensors.lse, which the forward call wrote */
    CLATTN_MAX_LOGIT = 1 << 1
} clattn_key_sums_output;

/* Start from CLATTN_KEY_SUMS_PROBLEM_INIT. */
typedef struct clattn_key_sums_problem {
    size_t struct_size;
    const clattn_problem *forward; /* only read while a plan is made. weights must be CLATTN_WEIGHTS_NONE; strategy and
                                    * matmul are the forward's own affair, as is all that is about values */
    uint32_t outputs;              /* clattn_key_sums_output, or-ed; at least one */
    int64_t last_rows;             /* whose weights key_sums adds up, of each sequence; 0: all rows */
    const char *strategy;          /* as in clattn_problem */
} clattn_key_sums_problem;

#define CLATTN_KEY_SUMS_PROBLEM_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(clattn_key_sums_problem), NULL, CLATTN_KEY_SUMS, 0, NULL                                                \
    }
CLATTN_API void clattn_key_sums_problem_init(clattn_key_sums_problem *problem, size_t struct_size);

/* Shapes, with strides as in clattn_tensors; both in float32, float64 for type CLATTN_FLOAT64:
 *   key_sums   [batch, query_heads, key_len]: stride[0], stride[1], stride[3], as weights without their rows; also of
 *              packed sequences. Keys past a sequence's length, in holes or overwritten are 0
 *   max_logit  [batch, query_heads]: stride[0], stride[1]
 * Each must be given where the problem has it, else not. */
typedef struct clattn_key_sums {
    size_t struct_size; /* set by CLATTN_KEY_SUMS_INIT */
    cl_mem workspace;   /* clattn_plan_workspace() bytes of this plan; clattn_tensors.workspace is not used */
    clattn_tensor key_sums;
    clattn_tensor max_logit;
} clattn_key_sums;

typedef struct clattn_host_key_sums {
    size_t struct_size; /* set by CLATTN_HOST_KEY_SUMS_INIT */
    clattn_host_tensor key_sums;
    clattn_host_tensor max_logit;
} clattn_host_key_sums;

#define CLATTN_KEY_SUMS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(clattn_key_sums), NULL, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE                                          \
    }
#define CLATTN_HOST_KEY_SUMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(clattn_host_key_sums), CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE                                           \
    }
CLATTN_API void clattn_key_sums_init(clattn_key_sums *sums, size_t struct_size);
CLATTN_API void clattn_host_key_sums_init(clattn_host_key_sums *sums, size_t struct_size);

/* As clattn_plan_create; the plan is for clattn_enqueue_key_sums alone. clattn_plan_destroy, _workspace, _strategy and
 * _explain are for it too. */
CLATTN_API clattn_status clattn_key_sums_plan_create(clattn_context *context, const clattn_key_sums_problem *problem,
                                                     clattn_plan **plan);

/* As clattn_enqueue_forward. `call` and `tensors` are those of the forward call: the same lengths and scale.
 * tensors->lse is only read, and only where CLATTN_KEY_SUMS is asked for; of values, out and sinks nothing is. */
CLATTN_API clattn_status clattn_enqueue_key_sums(const clattn_plan *plan, cl_command_queue queue,
                                                 const clattn_call *call, const clattn_tensors *tensors,
                                                 const clattn_key_sums *sums, cl_uint n_wait, const cl_event *wait,
                                                 cl_event *done);

/* As clattn_forward_host. */
CLATTN_API clattn_status clattn_key_sums_host(clattn_context *context, const clattn_key_sums_problem *problem,
                                              const clattn_call *call, const clattn_host_tensors *tensors,
                                              const clattn_host_key_sums *sums);

/* As clattn_reference_forward: the definition of what is right, from the same lse. */
CLATTN_API clattn_status clattn_reference_key_sums(const clattn_key_sums_problem *problem, const clattn_call *call,
                                                   const clattn_host_tensors *tensors,
                                                   const clattn_host_key_sums *sums);

#ifdef __cplusplus
}
#endif

#endif
