/* Gradients of attention, for training. What they share with clattn.h (contexts, plans, calls, types, masks, ownership,
 * threads, how structs grow) is said there. */
#ifndef CLATTN_BACKWARD_H
#define CLATTN_BACKWARD_H

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients ------------------------------------------------------------------------------ */

/* The backward pass of clattn_enqueue_forward:
 *
 *     clattn_problem forward = CLATTN_PROBLEM_INIT;             as the forward's, with CLATTN_WITH_LSE there
 *     clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
 *     problem.forward = &forward;
 *     problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
 *     clattn_backward_plan_create(context, &problem, &plan);
 *     clattn_enqueue_backward(plan, queue, NULL, &tensors, &gradients, 0, NULL, &done);
 *
 * The formula, with what the formula in clattn.h names; L is any function of out and lse, dout and dlse its derivatives
 * there, kept = 1 / (1 - dropout) where dropout kept the weight, else 0:
 *
 *     p     = exp(s - lse), 0 where not allowed            a     = dot(dout[b,h,i,:], value[b,g,j,:])
 *     D     = dot(dout[b,h,i,:], out[b,h,i,:]) - dlse[b,h,i]
 *     dS    = p * (kept * a - D)                           dZ    = dS * (1 - tanh^2), of the softcap's tanh
 *     dquery[b,h,i,:] = scale * sum_j dZ * key[b,g,j,:]
 *     dkey[b,g,j,:]   = scale * sum_h sum_i dZ * query[b,h,i,:]        over the query heads of g
 *     dvalue[b,g,j,:] = sum_h sum_i kept * p * dout[b,h,i,:]
 *     dbias = dS     dslopes = - sum dS * |i + offset - j|     dsinks = - sum exp(sink - lse) * D
 *     dscale = sum dZ * dot(query, key)
 *
 * Nothing but the forward's inputs, its out and its lse is needed: memory grows with lengths, never with their product.
 * out and lse may be those of more keys than the call has (of a ring of devices, of clattn_merge): nothing is
 * normalised again, so dkey and dvalue are those keys' own, and the dquery of all parts add up to the whole. dsinks
 * must then be asked of one part alone. But where lse is within 2^-20 |lse| (2^-23 for float64) of that of the call's
 * own keys, it is taken for that, which rounding to float32 took away, and p adds up to 1, with a large lse too; D may
 * be sum_j kept * p * a - dlse then.
 *
 * A row that may see no key, or whose lse is -inf, adds nothing anywhere, but its dlse to dsinks where lse is the sink,
 * and has dquery 0; keys in memory that no row sees get exactly 0. A NaN or infinity never passes between a row and a
 * key that it may not see, in either direction.
 *
 * Always deterministic: the same inputs on the same device give the same bits, whatever else is in the batch,
 * whichever other gradients are asked for, and whatever workspace_limit_bytes is. */

/* Which gradients; each is computed by itself, and one that is not asked for costs nothing. */
typedef enum clattn_gradient {
    CLATTN_GRADIENT_QUERY = 1 << 0,
    CLATTN_GRADIENT_KEY = 1 << 1,
    CLATTN_GRADIENT_VALUE = 1 << 2,
    CLATTN_GRADIENT_BIAS = 1 << 3, /* needs a bias, as the next two need slopes and sinks */
    CLATTN_GRADIENT_SLOPES = 1 << 4,
    CLATTN_GRADIENT_SINKS = 1 << 5,
    CLATTN_GRADIENT_SCALE = 1 << 6
} clattn_gradient;

/* Optional tensors of a backward problem, beside those of the forward's. */
typedef enum clattn_backward_feature {
    CLATTN_WITH_DLSE = 1 << 0 /* gradients.dlse; without it the derivative at lse is 0 */
} clattn_backward_feature;

/* Start from CLATTN_BACKWARD_PROBLEM_INIT. */
typedef struct clattn_backward_problem {
    size_t struct_size;
    const clattn_problem *forward; /* only read while a plan is made. CLATTN_WITH_LSE goes without saying; weights must
                                    * be CLATTN_WEIGHTS_NONE; strategy and matmul are the forward's own affair */
    uint32_t gradients;            /* clattn_gradient, or-ed; at least one */
    uint32_t accumulate;           /* of these: what is in the tensor is added to, once, old + new, at the end. Only
                                    * gradients in float32 or float64 */
    uint32_t features;             /* clattn_backward_feature, or-ed */
    clattn_type gradient_type;     /* of dquery, dkey, dvalue and dbias. CLATTN_TYPE_NONE: each as what it is the
                                    * gradient of; CLATTN_FLOAT32: float32, also of 16-bit inputs. Type float64: NONE */
    const char *strategy;          /* as in clattn_problem */
} clattn_backward_problem;

#define CLATTN_BACKWARD_PROBLEM_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(clattn_backward_problem), NULL, 0, 0, 0, CLATTN_TYPE_NONE, NULL                                         \
    }
CLATTN_API void clattn_backward_problem_init(clattn_backward_problem *problem, size_t struct_size);

/* Shapes, with strides as in clattn_tensors:
 *   dout      as out, of its type; may have strides of 0
 *   dlse      as lse, float32
 *   dquery, dkey, dvalue   as query, key, value, of the gradient's type, with strides of their own, none of them 0
 *   dbias     as bias: of the call's bias_key_len. A stride of 0 means the sum over that axis; of an axis without
 *             elements it is 0
 *   dslopes   [batch, query_heads]: stride[0], stride[1]; dsinks [query_heads]: stride[1]; a stride of 0: the sum
 *   dscale    one element; these three in float32, float64 for type CLATTN_FLOAT64
 * Each must be given where the problem has it, else not. Packed: dquery, dkey and dvalue are packed as query, key and
 * value are; rows in memory that belong to no sequence, or are past the problem's lengths, are not written. */
typedef struct clattn_gradients {
    size_t struct_size; /* set by CLATTN_GRADIENTS_INIT */
    cl_mem workspace;   /* clattn_plan_workspace() bytes of the backward plan; clattn_tensors.workspace is not used */
    clattn_tensor dout, dlse;
    clattn_tensor dquery, dkey, dvalue;
    clattn_tensor dbias, dslopes, dsinks, dscale;
} clattn_gradients;

typedef struct clattn_host_gradients {
    size_t struct_size; /* set by CLATTN_HOST_GRADIENTS_INIT */
    clattn_host_tensor dout, dlse;
    clattn_host_tensor dquery, dkey, dvalue;
    clattn_host_tensor dbias, dslopes, dsinks, dscale;
} clattn_host_gradients;

#define CLATTN_9_TENSORS_NONE                                                                                          \
    CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,                \
        CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE
#define CLATTN_GRADIENTS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(clattn_gradients), NULL, CLATTN_9_TENSORS_NONE                                                          \
    }
#define CLATTN_HOST_GRADIENTS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(clattn_host_gradients), CLATTN_9_TENSORS_NONE                                                           \
    }
CLATTN_API void clattn_gradients_init(clattn_gradients *gradients, size_t struct_size);
CLATTN_API void clattn_host_gradients_init(clattn_host_gradients *gradients, size_t struct_size);

/* As clattn_plan_create; the plan is for clattn_enqueue_backward alone. clattn_plan_destroy, _workspace, _strategy and
 * _explain are for it too. Keys in pages are CLATTN_UNSUPPORTED. */
CLATTN_API clattn_status clattn_backward_plan_create(clattn_context *context, const clattn_backward_problem *problem,
                                                     clattn_plan **plan);

/* As clattn_enqueue_forward. `call` and `tensors` are those of the forward call: the same lengths, scale, dropout seed;
 * tensors->out and lse, which it wrote, are only read. */
CLATTN_API clattn_status clattn_enqueue_backward(const clattn_plan *plan, cl_command_queue queue,
                                                 const clattn_call *call, const clattn_tensors *tensors,
                                                 const clattn_gradients *gradients, cl_uint n_wait,
                                                 const cl_event *wait, cl_event *done);

/* As clattn_forward_host. */
CLATTN_API clattn_status clattn_backward_host(clattn_context *context, const clattn_backward_problem *problem,
                                              const clattn_call *call, const clattn_host_tensors *tensors,
                                              const clattn_host_gradients *gradients);

/* As clattn_reference_forward: the definition of what is right, from the same out and lse. */
CLATTN_API clattn_status clattn_reference_backward(const clattn_backward_problem *problem, const clattn_call *call,
                                                   const clattn_host_tensors *tensors,
                                                   const clattn_host_gradients *gradients);

#ifdef __cplusplus
}
#endif

#endif
