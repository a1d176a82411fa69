/* Scores and masks of your own: a text in OpenCL C that the fused kernels are compiled with, for attention and for its
 * gradients. What it shares with clattn.h (contexts, plans, calls, ownership, how structs grow) is said there. */
#ifndef CLATTN_CODE_H
#define CLATTN_CODE_H

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scores of your own --------------------------------------------------------------------- */

/* A score and a mask of your own, in a problem:
 *
 *     clattn_user_code code = CLATTN_USER_CODE_INIT;
 *     code.source = "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
 *                   "{\n"
 *                   "    return s + LOAD(table, h * 127 + clamp(j - i + 63, 0, 126)) * SCALAR(strength);\n"
 *                   "}\n";
 *     code.functions = CLATTN_CODE_SCORE;
 *     code.tensor_count = 1;
 *     code.tensors[0] = (clattn_code_tensor){ "table", CLATTN_ELEMENT_FLOAT32, 8 * 127 };
 *     code.scalar_count = 1;
 *     code.scalars[0] = "strength";
 *     problem.code = &code;                 then make a plan; in a call:
 *     call.code_scalars[0] = 0.5f;          tensors.code_tensors[0] = clattn_tensor_bhsd(buffer, 1, 1, 8 * 127);
 *
 * The formula of clattn.h with it, in its order:
 *
 *     s = scale * dot(query, key), softcap
 *     s = clattn_score(s, b, h, i, j)                        -INFINITY hides the key, as a mask does
 *     s = s + bias - slope * |i + offset - j|
 *     s = allowed ? s : -inf                                 allowed: also clattn_mask(b, h, i, j) != 0
 *
 * The functions. b, h, i and j are the logical batch entry, query head, row and key: i and j count from 0 in their
 * sequence (packed or not), whatever pages, rings or groups of heads memory has; with clattn_call.first_batch, _head,
 * _row and _key they count from those.
 *
 *     NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)         CLATTN_CODE_SCORE
 *     TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)                     CLATTN_CODE_MASK
 *     NUMBER clattn_score_slope(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)   CLATTN_CODE_SCORE_SLOPE
 *
 * The slope is d clattn_score / d s at s: gradients of a problem with clattn_score need it. The mask returns 0 for a
 * key that the row may not see. Words of the text, beside OpenCL C 1.2:
 *
 *     NUMBER, INDEX, TRUTH   float, int and int; or float16, int16 and int16: sixteen pairs at once, where the text can
 *                            be compiled so. double, int and int for CLATTN_FLOAT64. A text that can not (it
 *                            branches, loops or has arrays) is called pair by pair: right, and slower;
 *                            clattn_plan_explain says so
 *     USER, user             the last parameter, and the argument that hands it on to a function of your own
 *     LOAD(name, index)      an element of a tensor: a NUMBER, or an INDEX of int32 and uint8. No bounds are checked
 *     SCALAR(name)           a float of the call
 *     POSITION(i)            i + offset: where row i stands among the keys
 *     TO_NUMBER(x), TO_INDEX(x)   a NUMBER of an INDEX, and an INDEX of a NUMBER (cut off towards 0)
 *     WHERE(condition, a, b)      condition != 0 ? a : b, pair by pair
 *
 * Numbers such as 0.5 are float where the type is not float64. Choose by comparisons and WHERE: `x ? a : b` of sixteen
 * INDEX at once asks for their sign bit, as OpenCL C has it.
 *
 * A text may be asked about any pair of a row and a key of a sequence, also about one that another mask hides: it must
 * not read outside of its tensors for any of them. One that does is an error as it is in C: nothing guards against it.
 * Write it with the care of a kernel of your own, and take none from strangers. */
typedef enum clattn_code_function {
    CLATTN_CODE_SCORE = 1 << 0,
    CLATTN_CODE_MASK = 1 << 1,
    CLATTN_CODE_SCORE_SLOPE = 1 << 2 /* needs CLATTN_CODE_SCORE */
} clattn_code_function;

/* What tensors of a text are made of. */
typedef enum clattn_element {
    CLATTN_ELEMENT_NONE = 0,
    CLATTN_ELEMENT_FLOAT32 = 1,
    CLATTN_ELEMENT_FLOAT16 = 2,
    CLATTN_ELEMENT_BFLOAT16 = 3,
    CLATTN_ELEMENT_FLOAT64 = 4, /* with type CLATTN_FLOAT64 only */
    CLATTN_ELEMENT_INT32 = 5,
    CLATTN_ELEMENT_UINT8 = 6
} clattn_element;

typedef struct clattn_code_tensor {
    const char *name; /* as LOAD has it: a letter, then letters, digits and _, at most 31 in all */
    clattn_element element;
    int64_t elements; /* 1 to 2^31 - 1, one behind the other; no new count compiles anything */
} clattn_code_tensor;

/* What a callback is told beside the pair. */
typedef struct clattn_code_inputs {
    const struct clattn_user_code *code; /* callbacks, names and elements; its source is NULL */
    const void *tensors[8];              /* the first element of each, in host memory */
    const float *scalars;                /* clattn_call.code_scalars */
    int64_t offset;                      /* POSITION(i) is i + offset */
} clattn_code_inputs;

/* The functions of the text again, in C and double. */
typedef double clattn_score_callback(double s, int64_t b, int64_t h, int64_t i, int64_t j,
                                     const clattn_code_inputs *inputs);
typedef int clattn_mask_callback(int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *inputs);

/* Start from CLATTN_USER_CODE_INIT. Only read while a plan is made, which copies it. */
typedef struct clattn_user_code {
    size_t struct_size;
    const char *source; /* OpenCL C 1.2: at most 65536 bytes of UTF-8, no control characters but tabs and ends of lines.
                         * It may use define, undef, conditions and pragma of the preprocessor; names with clattn_ in
                         * front are the library's. The compiler's errors name lines of "code.source" */
    uint32_t functions; /* clattn_code_function, or-ed: exactly those that the text has */
    int32_t tensor_count;          /* 0 to 8 */
    clattn_code_tensor tensors[8]; /* given in clattn_tensors.code_tensors in this order */
    int32_t scalar_count;          /* 0 to 8 */
    int32_t unused;                /* 0 */
    const char *scalars[8]; /* names; values are clattn_call.code_scalars, of which no new one compiles anything */

    /* The text's functions in C, for clattn_reference_forward and _backward and the self-check, which compute with no
     * device; NULL: they refuse the problem, or leave the plan unchecked. May be called from any thread that makes
     * plans. */
    clattn_score_callback *score, *score_slope;
    clattn_mask_callback *mask;
    void *context; /* for callbacks */
} clattn_user_code;

#define CLATTN_CODE_TENSOR_NONE                                                                                        \
    {                                                                                                                  \
        NULL, CLATTN_ELEMENT_NONE, 0                                                                                   \
    }
#define CLATTN_USER_CODE_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(clattn_user_code), NULL, 0, 0,                                                                          \
            { CLATTN_CODE_TENSOR_NONE, CLATTN_CODE_TENSOR_NONE, CLATTN_CODE_TENSOR_NONE, CLATTN_CODE_TENSOR_NONE,      \
              CLATTN_CODE_TENSOR_NONE, CLATTN_CODE_TENSOR_NONE, CLATTN_CODE_TENSOR_NONE, CLATTN_CODE_TENSOR_NONE },    \
            0, 0, { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }, NULL, NULL, NULL, NULL                           \
    }
CLATTN_API void clattn_user_code_init(clattn_user_code *code, size_t struct_size);

CLATTN_API size_t clattn_element_size(clattn_element element); /* bytes; 0 for an unknown one */

/* Element `index` of tensor `tensor` (its number), for callbacks. NaN outside of its elements. */
CLATTN_API double clattn_code_load(const clattn_code_inputs *inputs, int tensor, int64_t index);

/* ---- block masks of a text ------------------------------------------------------------------ */

/* What a mask text says, of whole blocks: a plan of such a problem fills tensors.block_mask, on the device, of which
 * calls of attention with CLATTN_WITH_BLOCK_MASK then skip what is EMPTY, and ask the text in what is PARTIAL alone.
 *
 *     problem.features |= CLATTN_WITH_BLOCK_MASK;
 *     problem.block_mask_rows = problem.block_mask_keys = 64;
 *     clattn_block_mask_plan_create(context, &problem, &of_blocks);    once, as
 *     clattn_plan_create(context, &problem, &plan);
 *     clattn_enqueue_block_mask(of_blocks, queue, NULL, &tensors, 0, NULL, NULL);      whenever what the text says
 *     clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL);              changes
 *
 * The problem is that of attention, with `strategy` NULL; its code must have clattn_mask, which is asked about every
 * pair of rows and keys below the call's lengths: those alone make a block FULL. The call writes block_mask, and reads
 * key_lengths, query_offsets, cu_query, cu_key and code_tensors where the problem has them; attention's other tensors
 * may be given. Where a text does not look at b, or at h, a problem of one batch entry, or of one head, makes the mask
 * for all of them, which they share by a stride of 0.
 *
 * Blocks of 64 x 64 are right for most: fewer rows or keys skip more of a mask with small holes, and are asked about
 * more often. Calls never wait; plans and errors are as those of clattn.h. */
CLATTN_API clattn_status clattn_block_mask_plan_create(clattn_context *context, const clattn_problem *problem,
                                                       clattn_plan **plan);
CLATTN_API clattn_status clattn_enqueue_block_mask(const clattn_plan *plan, cl_command_queue queue,
                                                   const clattn_call *call, const clattn_tensors *tensors,
                                                   cl_uint n_wait, const cl_event *wait, cl_event *done);

/* On host memory, blocking; and by the callback code.mask, without a device. */
CLATTN_API clattn_status clattn_block_mask_host(clattn_context *context, const clattn_problem *problem,
                                                const clattn_call *call, const clattn_host_tensors *tensors);
CLATTN_API clattn_status clattn_reference_block_mask(const clattn_problem *problem, const clattn_call *call,
                                                     const clattn_host_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
