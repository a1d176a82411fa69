/* The exported functions of clattn_code.h that compute: block masks of a text. */
#include "api/entry.h"
#include "operation/block_mask.h"

clattn_status clattn_block_mask_plan_create(clattn_context *context, const clattn_problem *problem, clattn_plan **plan)
{
    return entry_plan(context, &operation_block_mask, problem, plan);
}

clattn_status clattn_enqueue_block_mask(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                        const clattn_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                        cl_event *done)
{
    return entry_enqueue(plan, &operation_block_mask, GIVEN(call, tensors), TARGET);
}

clattn_status clattn_block_mask_host(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                                     const clattn_host_tensors *tensors)
{
    return entry_host(context, &operation_block_mask, problem, GIVEN(call, tensors));
}

clattn_status clattn_reference_block_mask(const clattn_problem *problem, const clattn_call *call,
                                          const clattn_host_tensors *tensors)
{
    return entry_reference(&operation_block_mask, problem, GIVEN(call, tensors));
}
