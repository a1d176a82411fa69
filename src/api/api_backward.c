/* The exported functions of clattn_backward.h. */
#include "api/host_call.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/uncancelled.h"
#include "operation/backward.h"
#include "operation/overlap.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "reference/reference_backward.h"

clattn_status clattn_backward_plan_create(clattn_context *context, const clattn_backward_problem *problem,
                                          clattn_plan **plan)
{
    UNCANCELLED;
    REQUIRE(plan);
    *plan = NULL;
    clattn_status status = context_check(context);
    struct backward_problem checked;
    if (status == CLATTN_OK) {
        status = backward_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? planner_plan(context, &checked.attention.any, plan) : status;
}

clattn_status clattn_enqueue_backward(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                      const clattn_tensors *tensors, const clattn_gradients *gradients, cl_uint n_wait,
                                      const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct call checked;
    clattn_status status = enqueue_check(plan, &operation_backward, queue, done);
    if (status == CLATTN_OK) {
        status = backward_call_from_device(backward_problem(plan->problem), call, tensors, gradients, &checked);
    }
    return status == CLATTN_OK ? enqueue_plan(plan, &target, &checked.operands) : status;
}

/* Validated, values in host memory included. */
static clattn_status host_call(const clattn_backward_problem *given, const clattn_call *values,
                               const clattn_host_tensors *tensors, const clattn_host_gradients *gradients,
                               struct backward_problem *problem, struct call *call)
{
    clattn_status status = backward_problem_init(problem, given);
    if (status == CLATTN_OK) {
        status = backward_call_from_host(problem, values, tensors, gradients, call);
    }
    return status == CLATTN_OK ? call_check_host_values(&problem->attention, call) : status;
}

clattn_status clattn_backward_host(clattn_context *context, const clattn_backward_problem *problem,
                                   const clattn_call *call, const clattn_host_tensors *tensors,
                                   const clattn_host_gradients *gradients)
{
    UNCANCELLED;
    struct backward_problem checked;
    struct call checked_call;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = host_call(problem, call, tensors, gradients, &checked, &checked_call);
    }
    return status == CLATTN_OK ? host_planned(context, &checked.attention.any, &checked_call.operands) : status;
}

clattn_status clattn_reference_backward(const clattn_backward_problem *problem, const clattn_call *call,
                                        const clattn_host_tensors *tensors, const clattn_host_gradients *gradients)
{
    ROUNDED_TO_NEAREST;
    struct backward_problem checked;
    struct call checked_call;
    clattn_status status = host_call(problem, call, tensors, gradients, &checked, &checked_call);
    if (status == CLATTN_OK) {
        status = operands_check_apart(&checked_call.operands, 0);
    }
    return status == CLATTN_OK ? reference_backward(&checked, &checked_call) : status;
}
