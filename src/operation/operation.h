/* What an operation is: a name and the tensors that it takes, as data. Forward attention, its gradients, merging, the
 * multi-head layer and additive attention are operations; whatever treats tensors one by one (presence, strides,
 * bounds, host copies, kernel arguments) is written once, over these rows. Its problems and calls live by the functions
 * that stand here; what all of them do alike is in any_problem.c and any_call.c. */
#ifndef CLATTN_SRC_OPERATION_H
#define CLATTN_SRC_OPERATION_H

#include "clattn.h"

#define EXTENTS_MAX 40  /* different extents in one operation */
#define ELEMENTS_MAX 25 /* different element types in one operation */
#define OPERANDS_MAX 48 /* tensors of one operation */

/* Elements of every operation; its own are numbered from OWN_ELEMENTS on. */
enum common_element { ELEMENT_BYTE, ELEMENT_INT, ELEMENT_FLOAT, OWN_ELEMENTS };

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
    unsigned char dense;    /* element after element, whatever the strides say */
    unsigned char columns;  /* column stride 1, unless operands.strided_columns */
    unsigned char is_apart; /* the kernels' parameters have no place of it, or its operation fills it in */
    unsigned char strides;  /* that kernels are told, of the axes from the first on */
    /* In the kernels' parameters, but for those of attention: the offset, and the strides. */
    size_t param_offset_at, param_stride_at;
};

struct any_problem;
struct growth;
struct operands;
struct text;

#define PUBLIC_TENSORS 2 /* structs of tensors that one call has at most */

/* A public struct of a call's tensors, for devices and for hosts. */
struct public_tensors {
    const struct growth *device, *host;
    int rows;            /* of the operation, behind those of the struct before */
    size_t workspace_at; /* in the device's; 0: it has none, or nobody looks at it */
};

struct operation {
    const char *name;
    const struct tensor_row *rows;
    int count;
    const char *workspace_function; /* which public function tells how large the workspace must be */

    /* ---- its problems (any_problem.h): struct any_problem and the operation's own fields behind it ---- */
    size_t problem_bytes;
    const struct growth *given; /* the public struct, */
    size_t given_at;            /* where a copy of it lies in the operation's own, */
    size_t strategy_at;         /* and the name of a strategy in that, in the operation's own too */

    /* Rules and defaults: a copy of what was given becomes a problem. Strings and structs that it points to are the
     * caller's, and are not looked at later. */
    clattn_status (*resolve)(struct any_problem *problem);

    /* For problems that the planner plans, by the strategies of the operation in strategies.c. */
    int (*equal)(const struct any_problem *a, const struct any_problem *b); /* their own fields */
    void (*describe)(const struct any_problem *problem, struct text *text); /* one line */

    /* Both NULL: no bits. What a problem asks for, of which a strategy may know nothing (struct strategy, knows); and
     * the names of such bits, by commas. */
    uint32_t (*flags)(const struct any_problem *problem);
    void (*describe_flags)(uint32_t flags, struct text *text);

    /* ---- its calls (any_call.h): struct operands and the operation's own fields behind it ---- */
    struct public_tensors tensors[PUBLIC_TENSORS];
    uint64_t unlooked; /* bit n: tensor n may be given, and nobody looks at it */

    /* What to say of a public struct, for devices or hosts, with fields that have no row here. NULL: nothing. */
    clattn_status (*refuse)(const void *tensors, int on_host);

    /* What problem and values (NULL: the defaults) decide of a call whose places are read: its own fields, extents,
     * types, what is asked for. */
    clattn_status (*measure)(const struct any_problem *problem, const void *values, struct operands *call);

    /* Once each tensor is where it may be: rules on several of them; values in host memory. NULL: there are none. */
    clattn_status (*check_places)(const struct any_problem *problem, const struct operands *call);
    clattn_status (*check_values)(const struct any_problem *problem, const struct operands *call);

    /* What a call means: the definition in float64, in src/reference/, on checked host memory. */
    clattn_status (*reference)(const struct any_problem *problem, const struct operands *call);
};

#endif
