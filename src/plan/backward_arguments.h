/* What strategies of gradients begin a call with: the host's side of cl/backward_arguments.clh. */
#ifndef CLATTN_SRC_BACKWARD_ARGUMENTS_H
#define CLATTN_SRC_BACKWARD_ARGUMENTS_H

#include "cl/backward_params.h"
#include "operation/backward.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

/* Attention's, with what gradients have of their own in places of tensors that they never have, and the workspace. */
#define BACKWARD_ARGUMENTS_MOST (ATTENTION_ARGUMENTS_MOST + 1)

/* What the arguments of a call point to, which must stay until the launch. */
struct backward_call_arguments {
    const clattn_problem *problem;
    const struct operands *operands;
    clattn_params params;
    struct attention_extras extras;
    const cl_mem *own; /* of the kernel's own tensor; NULL: it has none */
};

void backward_call_arguments(const struct clattn_plan *plan, const struct operands *operands,
                             struct backward_call_arguments *call);

/* Where a gradient is, or dlse, as kernels are told. */
clattn_place backward_gradient_place(const struct operands *operands, enum gradient_id id);

/* From here on the kernel's own tensor is this one: a gradient that it writes, or dlse. */
void backward_call_take(struct backward_call_arguments *call, enum gradient_id id);

/* Fills arguments from number 0 on, and returns how many, at most BACKWARD_ARGUMENTS_MOST. */
size_t backward_arguments(const struct backward_call_arguments *call, struct launch_argument *arguments);

/* What is computed in: float64 for float64 problems, else float32. */
clattn_type backward_real_type(const clattn_problem *problem);

/* As attention_is_served, and keys lie where gradients read them. */
int backward_is_served(struct ask *ask);

#endif
