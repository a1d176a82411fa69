/* The arguments that all kernels of gradients begin with. */
#include "plan/backward_arguments.h"

#include <string.h>

static clattn_input_place input_place(const struct tensor_place *tensor)
{
    clattn_input_place place = { .offset = tensor->offset };
    memcpy(place.stride, tensor->stride, sizeof(place.stride));
    return place;
}

void backward_call_arguments(const struct clattn_plan *plan, const struct operands *operands,
                             struct backward_call_arguments *call)
{
    call->problem = &attention_problem(plan->problem)->p;
    call->operands = operands;
    call->places = (clattn_backward_places){ .dout = input_place(&operands->tensor[GRADIENT_DOUT]),
                                             .dlse = input_place(&operands->tensor[GRADIENT_DLSE]) };
    call->gradient = NULL;
    attention_give(plan, operands, &call->given);
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

void backward_call_take(struct backward_call_arguments *call, enum gradient_id id)
{
    call->places.gradient = backward_gradient_place(call->operands, id);
    call->gradient = call->operands->tensor[id].buffer;
}

size_t backward_arguments(const struct backward_call_arguments *call, struct launch_argument *arguments)
{
    const struct tensor_place *tensor = call->operands->tensor;
    size_t count = attention_arguments(&call->given, arguments);
    arguments[count++] = (struct launch_argument)ARGUMENT(call->places);
    arguments[count++] = (struct launch_argument)ARGUMENT(tensor[GRADIENT_DOUT].buffer);
    arguments[count++] = (struct launch_argument)ARGUMENT(tensor[GRADIENT_DLSE].buffer);
    arguments[count++] = (struct launch_argument)ARGUMENT(call->gradient);
    arguments[count++] = (struct launch_argument)ARGUMENT(call->operands->workspace);
    return count;
}

clattn_type backward_real_type(const clattn_problem *problem)
{
    return problem->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

int backward_is_served(struct ask *ask)
{
    if (attention_problem(ask->problem)->flags & CLATTN_FLAG_PAGES) {
        return ask_declines(ask, "reads no keys in pages");
    }
    return attention_is_served(ask, sizeof(clattn_backward_places) + 4 * sizeof(cl_ulong) + BACKWARD_OWN_BYTES);
}
