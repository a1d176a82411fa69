/* The arguments that all kernels of gradients begin with. */
#include "plan/backward_arguments.h"

#include <string.h>

/* Beside attention's: the workspace, a gradient and its place, or dlse and its, and three numbers. */
#define OWN_BYTES (sizeof(clattn_place) + 2 * sizeof(cl_mem) + 4 * sizeof(cl_int))

_Static_assert(sizeof(clattn_params) + TENSOR_COUNT * sizeof(cl_mem) + OWN_BYTES <= 1024,
               "every device takes 1,024 bytes of arguments (CL_DEVICE_MAX_PARAMETER_SIZE)");

void backward_call_arguments(const struct clattn_plan *plan, const struct operands *operands,
                             struct backward_call_arguments *call)
{
    const struct problem *problem = attention_problem(plan->problem);
    clattn_backward_params places;
    memset(&places, 0, sizeof(places));
    operands_fill(operands, &places);
    params_fill_values(problem, attention_call(operands), &places.forward);
    call->problem = &problem->p;
    call->operands = operands;
    call->params = places.forward;
    memcpy(call->params.weights_stride, operands->tensor[GRADIENT_DOUT].stride, sizeof(call->params.weights_stride));
    call->params.weights_offset = operands->tensor[GRADIENT_DOUT].offset;
}

void backward_arguments(const struct backward_call_arguments *call, struct launch_argument *arguments)
{
    attention_arguments(&call->params, call->operands, arguments);
    arguments[1 + TENSOR_WEIGHTS] = (struct launch_argument)ARGUMENT(call->operands->tensor[GRADIENT_DOUT].buffer);
    arguments[ATTENTION_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(call->operands->workspace);
}

clattn_input_place backward_input_place(const struct operands *operands, enum gradient_id id)
{
    clattn_input_place place;
    memcpy(place.stride, operands->tensor[id].stride, sizeof(place.stride));
    place.offset = operands->tensor[id].offset;
    return place;
}

clattn_place backward_gradient_place(const struct operands *operands, enum gradient_id id)
{
    const struct tensor_row *row = &operands->operation->rows[id];
    clattn_place place;
    /* An axis that the tensor lacks is one that is summed. How long the others are does not matter: rows of packed
     * sequences only the device may know. */
    for (int axis = 0; axis < 4; ++axis) {
        place.stride[axis] = row->axis[axis] ? operands->tensor[id].stride[axis] : 0;
    }
    place.offset = operands->tensor[id].offset;
    place.type = (int)operands->element[row->element];
    place.accumulate = operand_is_read(operands, (int)id);
    return place;
}

clattn_type backward_real_type(const clattn_problem *problem)
{
    return problem->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

int backward_arguments_fit(const struct device *device, const struct problem *problem, struct text *why)
{
    if (problem->flags & CLATTN_FLAG_PAGES) {
        text_append(why, "reads no keys in pages");
        return 0;
    }
    return attention_arguments_fit(device, sizeof(clattn_place) + sizeof(cl_mem), why);
}
