/* The arguments that all kernels of gradients begin with. */
#include "plan/backward_arguments.h"

#include <string.h>

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
    call->own = NULL;
    attention_extras(plan, operands, &call->extras);
    memcpy(call->params.weights_stride, operands->tensor[GRADIENT_DOUT].stride, sizeof(call->params.weights_stride));
    call->params.weights_offset = operands->tensor[GRADIENT_DOUT].offset;
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
    const clattn_place place = backward_gradient_place(call->operands, id);
    memcpy(call->params.page_table_stride, place.stride, sizeof(place.stride));
    call->params.page_table_offset = place.offset;
    call->params.page_size = place.type;
    call->params.pages = place.accumulate;
    call->own = &call->operands->tensor[id].buffer;
}

size_t backward_arguments(const struct backward_call_arguments *call, struct launch_argument *arguments)
{
    const size_t count = attention_arguments(&call->params, &call->extras, call->operands, arguments);
    arguments[1 + TENSOR_WEIGHTS] = (struct launch_argument)ARGUMENT(call->operands->tensor[GRADIENT_DOUT].buffer);
    if (call->own) {
        arguments[1 + TENSOR_PAGE_TABLE] = (struct launch_argument){ sizeof(cl_mem), call->own };
    }
    arguments[count] = (struct launch_argument)ARGUMENT(call->operands->workspace);
    return count + 1;
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
    return attention_is_served(ask, ATTENTION_OWN_BYTES);
}
