/* What an operation is: a name and the tensors that it takes, as data. Forward attention, its gradients, merging, the
 * multi-head layer and additive attention are operations; whatever treats tensors one by one (presence, strides,
 * bounds, host copies, kernel arguments) is written once, over these rows. An operation that the planner plans, by the
 * strategies of it in strategies.c, also says what must be known of its problems there. */
#ifndef CLATTN_SRC_OPERATION_H
#define CLATTN_SRC_OPERATION_H

#include "clattn.h"

#define EXTENTS_MAX 28  /* different extents in one operation */
#define ELEMENTS_MAX 20 /* different element types in one operation */
#define OPERANDS_MAX 32 /* tensors of one operation */

enum tensor_role {
    TENSOR_INPUT,
    TENSOR_WEIGHT,  /* an input whose values must be finite, where they can be read */
    TENSOR_OUTPUT,  /* every element of it is written */
    TENSOR_UPDATED, /* read and written: what a call does not write stays as it was */
    TENSOR_SUMMED   /* the same; where a stride is 0, elements of that axis are added into one */
};

/* What the public structs have of a tensor. */
enum tensor_field {
    FIELD_TENSOR, /* clattn_tensor and clattn_host_tensor: offset and strides */
    FIELD_ARRAY   /* clattn_array and a pointer: dense, the last axis innermost */
};

struct tensor_row {
    const char *name; /* in messages, and in the public structs */
    enum tensor_field field;
    size_t device_at, host_at; /* of the field in the operation's public structs */
    unsigned char axis[4];     /* batch, head, row, column: number of its extent in operands.extent */
    unsigned char element;     /* number of its type in operands.element */
    enum tensor_role role;
    unsigned char dense;   /* element after element, whatever the strides say */
    unsigned char columns; /* column stride 1, unless operands.strided_columns */
    /* In the kernels' parameters: the offset, and strides of axes [first_stride, first_stride + strides). */
    unsigned char first_stride, strides;
    size_t param_offset_at, param_stride_at;
};

struct any_problem;
struct operands;
struct text;

struct operation {
    const char *name;
    const struct tensor_row *rows;
    int count;
    const char *workspace_function; /* which public function tells how large the workspace must be */

    /* Its problems, where the planner plans them: struct any_problem and the operation's own fields behind it. */
    size_t problem_bytes;
    int (*equal)(const struct any_problem *a, const struct any_problem *b); /* their own fields */
    void (*describe)(const struct any_problem *problem, struct text *text); /* one line */

    /* Both NULL: no bits. What a problem asks for, of which a strategy may know nothing (struct strategy, knows); and
     * the names of such bits, by commas. */
    uint32_t (*flags)(const struct any_problem *problem);
    void (*describe_flags)(uint32_t flags, struct text *text);

    /* A call with all that the problem has and allows, which has no tensors yet, into `call`: so many bytes, of which
     * the first are operands. */
    size_t call_bytes;
    clattn_status (*largest)(const struct any_problem *problem, struct operands *call);
};

#endif
