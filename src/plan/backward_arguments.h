/* What strategies of gradients begin a call with: the host's side of cl/backward_arguments.clh. */
#ifndef CLATTN_SRC_BACKWARD_ARGUMENTS_H
#define CLATTN_SRC_BACKWARD_ARGUMENTS_H

#include "cl/backward_params.h"
#include "operation/backward.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

/* Attention's, with dout in the place of the weights output, and the workspace. */
#define BACKWARD_ARGUMENT_COUNT (ATTENTION_ARGUMENT_COUNT + 1)

/* What the arguments of a call point to, which must stay until the launch. */
struct backward_call_arguments {
    const clattn_problem *problem;
    const struct operands *operands;
    clattn_params params;
};

void backward_call_arguments(const struct clattn_plan *plan, const struct operands *operands,
                             struct backward_call_arguments *call);

/* Fills arguments[0 .. BACKWARD_ARGUMENT_COUNT). */
void backward_arguments(const struct backward_call_arguments *call, struct launch_argument *arguments);

/* Of dlse, and of a gradient. */
clattn_input_place backward_input_place(const struct operands *operands, enum gradient_id id);
clattn_place backward_gradient_place(const struct operands *operands, enum gradient_id id);

/* What is computed in: float64 for float64 problems, else float32. */
clattn_type backward_real_type(const clattn_problem *problem);

/* Whether the device takes the arguments of such kernels, and keys lie where they read them. 0: appends one sentence
 * why not. */
int backward_arguments_fit(const struct device *device, const struct problem *problem, struct text *why);

#endif
