/* Additive attention, and its gradients. What it shares with clattn.h (contexts, types, masks, ownership, threads, how
 * structs grow) is said there. */
#ifndef CLATTN_ADDITIVE_H
#define CLATTN_ADDITIVE_H

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- additive attention --------------------------------------------------------------------- */

/* What dot products replaced (Bahdanau, Cho and Bengio, "Neural Machine Translation by Jointly Learning to
 * Align and Translate", 2014, section A.1.2); every batch entry b, row i and key j:
 *
 *     s   = sum_h score[h] * tanh(dot(wq[h], query[b,i]) + dot(wk[h], key[b,j])),  -inf where not allowed
 *     out = softmax(s) value
 *
 * The scores of all pairs are in the workspace: batch * rows * keys elements of float32. */
typedef struct clattn_additive_problem {
    size_t struct_size;
    clattn_type type; /* of all arrays but mask, key_lengths, weights; not CLATTN_FLOAT64 */
    int64_t batch, rows, keys;
    int64_t query_dim;  /* columns of query */
    int64_t key_dim;    /* columns of key; 0: query_dim */
    int64_t hidden_dim; /* rows of wq and wk */
    int64_t value_dim;  /* columns of value and out */
    uint32_t features;  /* CLATTN_WITH_MASK, CLATTN_WITH_KEY_LENGTHS */
    int causal;         /* as in clattn_problem; needs an alignment */
    clattn_alignment alignment;
    int weights;          /* nonzero: arrays.weights receives softmax(s) */
    const char *strategy; /* of softmax and value mixing; NULL: the best */
} clattn_additive_problem;

#define CLATTN_ADDITIVE_PROBLEM_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(clattn_additive_problem), CLATTN_FLOAT32, 1, 0, 0, 0, 0, 0, 0, 0, 0, CLATTN_ALIGN_UNSET, 0, NULL        \
    }
CLATTN_API void clattn_additive_problem_init(clattn_additive_problem *problem, size_t struct_size);

/* Dense: query [batch, rows, query_dim], key [batch, keys, key_dim], value [batch, keys, value_dim],
 * wq [hidden_dim, query_dim], wk [hidden_dim, key_dim], score [hidden_dim], out [batch, rows, value_dim],
 * mask [batch, 1, rows, keys] uint8 with strides (0 broadcasts; that of the head is not used), key_lengths [batch]
 * int32, weights [batch, rows, keys] float32. */
typedef struct clattn_additive_arrays {
    size_t struct_size; /* set by CLATTN_ADDITIVE_ARRAYS_INIT */
    cl_mem workspace;   /* clattn_additive_workspace() bytes */
    clattn_array query, key, value, wq, wk, score, out;
    clattn_array key_lengths, weights;
    clattn_tensor mask;
} clattn_additive_arrays;

typedef struct clattn_additive_host_arrays {
    size_t struct_size; /* set by CLATTN_ADDITIVE_HOST_ARRAYS_INIT */
    const void *query, *key, *value, *wq, *wk, *score;
    void *out;
    const int32_t *key_lengths;
    float *weights;
    clattn_host_tensor mask;
} clattn_additive_host_arrays;

#define CLATTN_ADDITIVE_ARRAYS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(clattn_additive_arrays), NULL, CLATTN_7_ARRAYS_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE,              \
            CLATTN_TENSOR_NONE                                                                                         \
    }
#define CLATTN_ADDITIVE_HOST_ARRAYS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(clattn_additive_host_arrays), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, CLATTN_TENSOR_NONE  \
    }
CLATTN_API void clattn_additive_arrays_init(clattn_additive_arrays *arrays, size_t struct_size);
CLATTN_API void clattn_additive_host_arrays_init(clattn_additive_host_arrays *arrays, size_t struct_size);

typedef struct clattn_additive clattn_additive; /* a plan: immutable */

/* As the functions of the multi-head layer, in clattn_layers.h. */
CLATTN_API clattn_status clattn_additive_create(clattn_context *context, const clattn_additive_problem *problem,
                                                clattn_additive **additive);
CLATTN_API void clattn_additive_destroy(clattn_additive *additive);
CLATTN_API size_t clattn_additive_workspace(const clattn_additive *additive);
CLATTN_API const char *clattn_additive_explain(const clattn_additive *additive);
CLATTN_API clattn_status clattn_additive_enqueue(const clattn_additive *additive, cl_command_queue queue,
                                                 const clattn_additive_arrays *arrays, cl_uint n_wait,
                                                 const cl_event *wait, cl_event *done);
CLATTN_API clattn_status clattn_additive_forward_host(clattn_context *context, const clattn_additive_problem *problem,
                                                      const clattn_additive_host_arrays *arrays);
CLATTN_API clattn_status clattn_additive_reference(const clattn_additive_problem *problem,
                                                   const clattn_additive_host_arrays *arrays);

/* ---- gradients of additive attention -------------------------------------------------------- */

/* From dout, the derivative of any loss at out, with t for the tanh of the formula above and p = softmax(s):
 *
 *     dS        = p * (dot(dout[i], value[j]) - dot(dout[i], out[i]))          dvalue[j] = sum_i p * dout[i]
 *     dscore[h] = sum_b,i,j dS * t
 *     da[i,h]   = score[h] * sum_j dS * (1 - t^2)          dwq = da^T query          dquery = da wq
 *     dc[j,h]   = score[h] * sum_i dS * (1 - t^2)          dwk = dc^T key            dkey   = dc wk
 *
 * Nothing of the forward call is needed but what it was given: projections, scores and softmax are computed once more,
 * in float32 whatever `type` is, so that these are the derivatives of the formula, not of its rounding. Scores and dS
 * are in the workspace: twice batch * rows * keys elements of float32.
 *
 * A row that may see no key has dquery 0 and adds nothing, a key that no row sees has dkey and dvalue 0, whatever they
 * hold. Bits are always the same: whichever gradients are asked for, run after run, no atomics. */
typedef enum clattn_additive_gradient {
    CLATTN_ADDITIVE_GRADIENT_QUERY = 1 << 0,
    CLATTN_ADDITIVE_GRADIENT_KEY = 1 << 1,
    CLATTN_ADDITIVE_GRADIENT_VALUE = 1 << 2,
    CLATTN_ADDITIVE_GRADIENT_WQ = 1 << 3,
    CLATTN_ADDITIVE_GRADIENT_WK = 1 << 4,
    CLATTN_ADDITIVE_GRADIENT_SCORE = 1 << 5
} clattn_additive_gradient;

/* Start from CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT. */
typedef struct clattn_additive_backward_problem {
    size_t struct_size;
    const clattn_additive_problem *forward; /* read while a plan is made; its weights must be 0. Its strategy is for
                                             * what is computed once more */
    uint32_t gradients;                     /* clattn_additive_gradient, or-ed; at least one, each by itself */
    uint32_t accumulate;       /* of these: what is in the array is added to, once, old + new; only in float32 */
    clattn_type gradient_type; /* of all gradients. CLATTN_TYPE_NONE: the layer's type; or CLATTN_FLOAT32 */
    const char *strategy;      /* of dvalue; NULL: the best */
} clattn_additive_backward_problem;

#define CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT                                                                          \
    {                                                                                                                  \
        sizeof(clattn_additive_backward_problem), NULL, 0, 0, CLATTN_TYPE_NONE, NULL                                   \
    }
CLATTN_API void clattn_additive_backward_problem_init(clattn_additive_backward_problem *problem, size_t struct_size);

/* dout as out, of the layer's type; each gradient as what it is of, of the gradients' type; given where it is asked
 * for, else not. */
typedef struct clattn_additive_gradients {
    size_t struct_size; /* set by CLATTN_ADDITIVE_GRADIENTS_INIT */
    cl_mem workspace;   /* clattn_additive_backward_workspace() bytes */
    clattn_array dout, dquery, dkey, dvalue;
    clattn_array dwq, dwk, dscore;
} clattn_additive_gradients;

typedef struct clattn_additive_host_gradients {
    size_t struct_size; /* set by CLATTN_ADDITIVE_HOST_GRADIENTS_INIT */
    const void *dout;
    void *dquery, *dkey, *dvalue;
    void *dwq, *dwk, *dscore;
} clattn_additive_host_gradients;

#define CLATTN_ADDITIVE_GRADIENTS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(clattn_additive_gradients), NULL, CLATTN_7_ARRAYS_NONE                                                  \
    }
#define CLATTN_ADDITIVE_HOST_GRADIENTS_INIT                                                                            \
    {                                                                                                                  \
        sizeof(clattn_additive_host_gradients), NULL, NULL, NULL, NULL, NULL, NULL, NULL                               \
    }
CLATTN_API void clattn_additive_gradients_init(clattn_additive_gradients *gradients, size_t struct_size);
CLATTN_API void clattn_additive_host_gradients_init(clattn_additive_host_gradients *gradients, size_t struct_size);

typedef struct clattn_additive_backward clattn_additive_backward; /* a plan: immutable */

/* As the functions above. `arrays` are those of the forward call, of which out, weights and the workspace are not
 * used. */
CLATTN_API clattn_status clattn_additive_backward_create(clattn_context *context,
                                                         const clattn_additive_backward_problem *problem,
                                                         clattn_additive_backward **backward);
CLATTN_API void clattn_additive_backward_destroy(clattn_additive_backward *backward);
CLATTN_API size_t clattn_additive_backward_workspace(const clattn_additive_backward *backward);
CLATTN_API const char *clattn_additive_backward_explain(const clattn_additive_backward *backward);
CLATTN_API clattn_status clattn_additive_backward_enqueue(const clattn_additive_backward *backward,
                                                          cl_command_queue queue, const clattn_additive_arrays *arrays,
                                                          const clattn_additive_gradients *gradients, cl_uint n_wait,
                                                          const cl_event *wait, cl_event *done);
CLATTN_API clattn_status clattn_additive_backward_host(clattn_context *context,
                                                       const clattn_additive_backward_problem *problem,
                                                       const clattn_additive_host_arrays *arrays,
                                                       const clattn_additive_host_gradients *gradients);

/* The gradients in closed form, in float64. Slow. Blocking. */
CLATTN_API clattn_status clattn_additive_backward_reference(const clattn_additive_backward_problem *problem,
                                                            const clattn_additive_host_arrays *arrays,
                                                            const clattn_additive_host_gradients *gradients);

#ifdef __cplusplus
}
#endif

#endif
