/* What strategies of gradients begin a call with: the host's side of cl/backward/arguments.clh. */
#ifndef CLATTN_SRC_BACKWARD_ARGUMENTS_H
#define CLATTN_SRC_BACKWARD_ARGUMENTS_H

#include "cl/backward/backward_params.h"
#include "operation/backward.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

/* Attention's, places and buffers of dout, dlse and a gradient, and the workspace. */
#define BACKWARD_ARGUMENTS_MOST (ATTENTION_ARGUMENTS_MOST + 5)

/* A kernel may have behind them a struct of so many bytes, and a buffer or some numbers. */
#define BACKWARD_OWN_BYTES 96

/* Groups of tensors (CLATTN_TAKES_*) that all programs of gradients take: cl/backward/backward_plain.cl, whose kernels
 * other strategies use too, asks at run time what a problem has. */
#define BACKWARD_TAKES (CLATTN_TAKES_LSE | CLATTN_TAKES_PAIRS | CLATTN_TAKES_ROWS)

/* What the arguments of a call point to, which must stay until the launch. */
struct backward_call_arguments {
    const clattn_problem *problem;
    const struct operands *operands;
    struct attention_given given;
    clattn_backward_places places;
    cl_mem gradient; /* that the kernel writes; NULL: it writes none */
};

void backward_call_arguments(const struct clattn_plan *plan, const struct operands *operands,
                             struct backward_call_arguments *call);

/* Where a gradient is, as kernels are told. */
clattn_place backward_gradient_place(const struct operands *operands, enum gradient_id id);

/* From here on this gradient is the one that kernels write. */
void backward_call_take(struct backward_call_arguments *call, enum gradient_id id);

/* Fills arguments from number 0 on, and returns how many, at most BACKWARD_ARGUMENTS_MOST. */
size_t backward_arguments(const struct backward_call_arguments *call, struct launch_argument *arguments);

/* What is computed in: float64 for float64 problems, else float32. */
clattn_type backward_real_type(const clattn_problem *problem);

/* As attention_is_served, and keys lie where gradients read them. */
int backward_is_served(struct ask *ask);

#endif
