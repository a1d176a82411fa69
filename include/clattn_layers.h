/* Layers around attention: multi-head attention with its projections, here, and additive attention, in
 * clattn_additive.h, which comes with this header. What they share with clattn.h (contexts, types, masks, ownership,
 * threads, how structs grow) is said there. */
#ifndef CLATTN_LAYERS_H
#define CLATTN_LAYERS_H

#include "clattn.h"
#include "clattn_additive.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- multi-head layer ----------------------------------------------------------------------- */

/* A whole attention layer (Vaswani et al., 2017, section 3.2.2), with context = x unless it is given:
 *
 *     query = x Wq^T + bq      key = context Wk^T + bk      value = context Wv^T + bv
 *     y     = attention(query, key, value), heads side by side, Wo^T + bo
 *
 * Weights are [out, in], as PyTorch stores them; the rows of a head follow one another, head 0 first. All
 * arrays are dense, the last axis innermost. query, key, value and the heads' results are stored in `type`
 * between the steps; sums are in float32 (float64 for CLATTN_FLOAT64). */
typedef enum clattn_mha_part {
    CLATTN_MHA_CROSS = 1 << 0,      /* keys and values are made of arrays.context */
    CLATTN_MHA_PACKED = 1 << 1,     /* wq holds Wq, Wk and Wv below each other, as PyTorch's in_proj_weight,
                                     * bq the three biases; wk, wv, bk, bv are not given. One multiply makes
                                     * query, key and value then (two with CLATTN_MHA_CROSS). */
    CLATTN_MHA_BIAS_QUERY = 1 << 2, /* bq; packed weights have all three of these or none */
    CLATTN_MHA_BIAS_KEY = 1 << 3,
    CLATTN_MHA_BIAS_VALUE = 1 << 4,
    CLATTN_MHA_BIAS_OUT = 1 << 5,
    CLATTN_MHA_BIASES = 60 /* all four */
} clattn_mha_part;

typedef enum clattn_mha_weights {
    CLATTN_MHA_WEIGHTS_NONE = 0,
    CLATTN_MHA_WEIGHTS_HEADS = 1,  /* arrays.weights [batch, query_heads, rows, context_rows] */
    CLATTN_MHA_WEIGHTS_AVERAGE = 2 /* averaged over the heads: [batch, rows, context_rows] */
} clattn_mha_weights;

/* What multiplies x by a weight. */
typedef enum clattn_projection {
    CLATTN_PROJECTION_AUTO = 0,  /* CPU devices: lanes where vectors are wide, else tiles; else CLBlast, else
                                  * tiles */
    CLATTN_PROJECTION_LANES = 1, /* clattn's kernel for CPU devices; not float64 */
    CLATTN_PROJECTION_TILES = 2, /* clattn's tiled kernel, any device */
    CLATTN_PROJECTION_CLBLAST = 3
} clattn_projection;

/* Start from CLATTN_MHA_PROBLEM_INIT. */
typedef struct clattn_mha_problem {
    size_t struct_size;
    clattn_type type; /* of all arrays but mask, key_lengths, weights */
    int64_t batch;
    int64_t rows;         /* of x, in each batch entry */
    int64_t context_rows; /* of the context, with CLATTN_MHA_CROSS; without it 0 or rows */
    int64_t model_dim;    /* columns of x */
    int64_t context_dim;  /* columns of the context; 0: model_dim */
    int64_t query_heads;  /* a multiple of kv_heads */
    int64_t kv_heads;     /* 0: query_heads */
    int64_t head_dim;     /* 0: model_dim / query_heads, which must come out even */
    int64_t head_dim_v;   /* 0: head_dim */
    int64_t out_dim;      /* columns of y; 0: model_dim */
    uint32_t parts;       /* clattn_mha_part, or-ed */
    uint32_t features;    /* CLATTN_WITH_MASK, CLATTN_WITH_KEY_LENGTHS */
    int causal;           /* as in clattn_problem; needs an alignment */
    clattn_alignment alignment;
    clattn_mha_weights weights;
    int has_scale; /* as in clattn_call */
    double scale;
    clattn_projection projection;
    const char *strategy; /* of the attention; NULL: the best */
} clattn_mha_problem;

#define CLATTN_MHA_PROBLEM_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(clattn_mha_problem), CLATTN_FLOAT32, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, CLATTN_ALIGN_UNSET,         \
            CLATTN_MHA_WEIGHTS_NONE, 0, 0.0, CLATTN_PROJECTION_AUTO, NULL                                              \
    }
CLATTN_API void clattn_mha_problem_init(clattn_mha_problem *problem, size_t struct_size);

/* Shapes (q = query_heads * head_dim, k = kv_heads * head_dim, v = kv_heads * head_dim_v):
 *   x [batch, rows, model_dim]     context [batch, context_rows, context_dim]   y [batch, rows, out_dim]
 *   wq [q, model_dim]   wk [k, context_dim]   wv [v, context_dim]   wo [out_dim, query_heads * head_dim_v]
 *   bq [q]   bk [k]   bv [v]   bo [out_dim]           packed: wq [q + k + v, model_dim], bq [q + k + v]
 *   mask      [batch, query_heads, rows, context_rows], uint8, nonzero = may be seen; it has strides, 0
 *             broadcasts an axis
 *   weights   float32 (float64 for CLATTN_FLOAT64), an output; see clattn_mha_weights
 *   key_lengths  [batch], int32
 * An array must be given exactly where the problem has it. Outputs must not overlap anything else. */
typedef struct clattn_mha_arrays {
    size_t struct_size; /* set by CLATTN_MHA_ARRAYS_INIT */
    cl_mem workspace;   /* clattn_mha_workspace() bytes, not shared by two calls in flight */
    clattn_array x, context, y;
    clattn_array wq, wk, wv, wo, bq, bk, bv, bo;
    clattn_array key_lengths, weights;
    clattn_tensor mask;
} clattn_mha_arrays;

typedef struct clattn_mha_host_arrays {
    size_t struct_size; /* set by CLATTN_MHA_HOST_ARRAYS_INIT */
    const void *x, *context;
    void *y;
    const void *wq, *wk, *wv, *wo, *bq, *bk, *bv, *bo;
    const int32_t *key_lengths;
    void *weights;
    clattn_host_tensor mask;
} clattn_mha_host_arrays;

#define CLATTN_MHA_ARRAYS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(clattn_mha_arrays), NULL, CLATTN_7_ARRAYS_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE,                   \
            CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_TENSOR_NONE             \
    }
#define CLATTN_MHA_HOST_ARRAYS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(clattn_mha_host_arrays), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,  \
            CLATTN_TENSOR_NONE                                                                                         \
    }
CLATTN_API void clattn_mha_arrays_init(clattn_mha_arrays *arrays, size_t struct_size);
CLATTN_API void clattn_mha_host_arrays_init(clattn_mha_host_arrays *arrays, size_t struct_size);

typedef struct clattn_mha clattn_mha; /* a plan for a layer: immutable */

/* Checks the problem, plans the attention and the projections, and compiles; copies the problem. The
 * caller owns *mha and destroys it before the context. Errors as clattn_plan_create. */
CLATTN_API clattn_status clattn_mha_create(clattn_context *context, const clattn_mha_problem *problem,
                                           clattn_mha **mha);
CLATTN_API void clattn_mha_destroy(clattn_mha *mha);

/* Bytes of device memory that arrays.workspace must have; 0: none needed. */
CLATTN_API size_t clattn_mha_workspace(const clattn_mha *mha);

/* Several lines of text: what multiplies and why, then the attention's own explanation. Owned by *mha. */
CLATTN_API const char *clattn_mha_explain(const clattn_mha *mha);

/* As clattn_enqueue_forward: returns without waiting. */
CLATTN_API clattn_status clattn_mha_enqueue(const clattn_mha *mha, cl_command_queue queue,
                                            const clattn_mha_arrays *arrays, cl_uint n_wait, const cl_event *wait,
                                            cl_event *done);

/* Blocking, on host memory. Packs separate weights on their way to the device. A NaN or infinity in a
 * weight or a bias is CLATTN_INVALID_ARGUMENT with its place in the message. */
CLATTN_API clattn_status clattn_mha_forward_host(clattn_context *context, const clattn_mha_problem *problem,
                                                 const clattn_mha_host_arrays *arrays);

/* The layer in float64 on the CPU, rounded to `type` where the device stores it. Slow. Blocking. */
CLATTN_API clattn_status clattn_mha_reference(const clattn_mha_problem *problem, const clattn_mha_host_arrays *arrays);

/* ---- gradients of the multi-head layer ------------------------------------------------------ */

/* From dy, the derivative of any loss at y, its derivatives at x, context, weights and biases:
 *
 *     dwo = dy^T heads       dbo = sum of dy's rows        dheads = dy Wo, and by clattn_backward.h's gradients of it
 *     dwq = dquery^T x       dbq = sum of dquery's rows    dx = dquery Wq
 *     dwk = dkey^T context   dbk = sum of dkey's rows      dcontext = dkey Wk + dvalue Wv,   dwv and dbv likewise
 *
 * Without CLATTN_MHA_CROSS the context is x: dx is the sum of all three products. Nothing of the forward call is needed
 * but what it was given: query, key, value and attention are computed once more, so that a model keeps no activations.
 * All that lies between the steps is float32 (float64 for CLATTN_FLOAT64, but for lse, which is float32 everywhere),
 * also where `type` has 16 bits: these are the derivatives of the formula, not of its rounding.
 *
 * A row whose gradient is 0 in every column, as of context that no row sees, adds nothing to the weights' gradients,
 * whatever it holds. Bits are always the same: whichever gradients are asked for, run after run, no atomics. */
typedef enum clattn_mha_gradient {
    CLATTN_MHA_GRADIENT_X = 1 << 0,
    CLATTN_MHA_GRADIENT_CONTEXT = 1 << 1, /* with CLATTN_MHA_CROSS */
    CLATTN_MHA_GRADIENT_WQ = 1 << 2,      /* of packed weights: of all three, as dbq */
    CLATTN_MHA_GRADIENT_WK = 1 << 3,
    CLATTN_MHA_GRADIENT_WV = 1 << 4,
    CLATTN_MHA_GRADIENT_WO = 1 << 5,
    CLATTN_MHA_GRADIENT_BQ = 1 << 6, /* of a bias that the layer has */
    CLATTN_MHA_GRADIENT_BK = 1 << 7,
    CLATTN_MHA_GRADIENT_BV = 1 << 8,
    CLATTN_MHA_GRADIENT_BO = 1 << 9
} clattn_mha_gradient;

/* Start from CLATTN_MHA_BACKWARD_PROBLEM_INIT. */
typedef struct clattn_mha_backward_problem {
    size_t struct_size;
    const clattn_mha_problem *forward; /* read while a plan is made; its weights must be CLATTN_MHA_WEIGHTS_NONE. Its
                                        * strategy is for what is computed once more, its projection for all products */
    uint32_t gradients;                /* clattn_mha_gradient, or-ed; at least one, each by itself */
    uint32_t accumulate;       /* of these: what is in the array is added to, once, old + new; float32, float64 */
    clattn_type gradient_type; /* of all gradients. CLATTN_TYPE_NONE: the layer's type; or CLATTN_FLOAT32 */
    const char *strategy;      /* of attention's gradients; NULL: the best */
} clattn_mha_backward_problem;

#define CLATTN_MHA_BACKWARD_PROBLEM_INIT                                                                               \
    {                                                                                                                  \
        sizeof(clattn_mha_backward_problem), NULL, 0, 0, CLATTN_TYPE_NONE, NULL                                        \
    }
CLATTN_API void clattn_mha_backward_problem_init(clattn_mha_backward_problem *problem, size_t struct_size);

/* dy as y, of the layer's type; each gradient as what it is of, of the gradients' type; given where it is asked for,
 * else not. */
typedef struct clattn_mha_gradients {
    size_t struct_size; /* set by CLATTN_MHA_GRADIENTS_INIT */
    cl_mem workspace;   /* clattn_mha_backward_workspace() bytes */
    clattn_array dy, dx, dcontext;
    clattn_array dwq, dwk, dwv, dwo, dbq, dbk, dbv, dbo;
} clattn_mha_gradients;

typedef struct clattn_mha_host_gradients {
    size_t struct_size; /* set by CLATTN_MHA_HOST_GRADIENTS_INIT */
    const void *dy;
    void *dx, *dcontext;
    void *dwq, *dwk, *dwv, *dwo, *dbq, *dbk, *dbv, *dbo;
} clattn_mha_host_gradients;

#define CLATTN_MHA_GRADIENTS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(clattn_mha_gradients), NULL, CLATTN_7_ARRAYS_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE,                \
            CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE                                                                       \
    }
#define CLATTN_MHA_HOST_GRADIENTS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(clattn_mha_host_gradients), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL            \
    }
CLATTN_API void clattn_mha_gradients_init(clattn_mha_gradients *gradients, size_t struct_size);
CLATTN_API void clattn_mha_host_gradients_init(clattn_mha_host_gradients *gradients, size_t struct_size);

typedef struct clattn_mha_backward clattn_mha_backward; /* a plan: immutable */

/* As the functions of the layer above. `arrays` are those of the forward call, of which y, weights and the workspace
 * are not used. */
CLATTN_API clattn_status clattn_mha_backward_create(clattn_context *context, const clattn_mha_backward_problem *problem,
                                                    clattn_mha_backward **backward);
CLATTN_API void clattn_mha_backward_destroy(clattn_mha_backward *backward);
CLATTN_API size_t clattn_mha_backward_workspace(const clattn_mha_backward *backward);
CLATTN_API const char *clattn_mha_backward_explain(const clattn_mha_backward *backward);
CLATTN_API clattn_status clattn_mha_backward_enqueue(const clattn_mha_backward *backward, cl_command_queue queue,
                                                     const clattn_mha_arrays *arrays,
                                                     const clattn_mha_gradients *gradients, cl_uint n_wait,
                                                     const cl_event *wait, cl_event *done);
CLATTN_API clattn_status clattn_mha_backward_host(clattn_context *context, const clattn_mha_backward_problem *problem,
                                                  const clattn_mha_host_arrays *arrays,
                                                  const clattn_mha_host_gradients *gradients);

/* The gradients in closed form, in float64 at least; single zeros of a row are left out, not only rows of zeros. Slow.
 * Blocking. */
CLATTN_API clattn_status clattn_mha_backward_reference(const clattn_mha_backward_problem *problem,
                                                       const clattn_mha_host_arrays *arrays,
                                                       const clattn_mha_host_gradients *gradients);

#ifdef __cplusplus
}
#endif

#endif
