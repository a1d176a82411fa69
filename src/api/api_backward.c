/* The exported functions of clattn_backward.h. */
#include "api/entry.h"
#include "base/growth.h"
#include "operation/backward.h"

/* ---- structs --------------------------------------------------------------------------------- */

/* clang-format off */
void clattn_backward_problem_init(clattn_backward_problem *to, size_t size)
{ GROWTH_INIT(clattn_backward_problem, CLATTN_BACKWARD_PROBLEM_INIT); }
void clattn_gradients_init(clattn_gradients *to, size_t size)
{ GROWTH_INIT(clattn_gradients, CLATTN_GRADIENTS_INIT); }
void clattn_host_gradients_init(clattn_host_gradients *to, size_t size)
{ GROWTH_INIT(clattn_host_gradients, CLATTN_HOST_GRADIENTS_INIT); }
/* clang-format on */

clattn_status clattn_backward_plan_create(clattn_context *context, const clattn_backward_problem *problem,
                                          clattn_plan **plan)
{
    return entry_plan(context, &operation_backward, problem, plan);
}

clattn_status clattn_enqueue_backward(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                      const clattn_tensors *tensors, const clattn_gradients *gradients, cl_uint n_wait,
                                      const cl_event *wait, cl_event *done)
{
    return entry_enqueue(plan, &operation_backward, GIVEN(call, tensors, gradients), TARGET);
}

clattn_status clattn_backward_host(clattn_context *context, const clattn_backward_problem *problem,
                                   const clattn_call *call, const clattn_host_tensors *tensors,
                                   const clattn_host_gradients *gradients)
{
    return entry_host(context, &operation_backward, problem, GIVEN(call, tensors, gradients));
}

clattn_status clattn_reference_backward(const clattn_backward_problem *problem, const clattn_call *call,
                                        const clattn_host_tensors *tensors, const clattn_host_gradients *gradients)
{
    return entry_reference(&operation_backward, problem, GIVEN(call, tensors, gradients));
}
