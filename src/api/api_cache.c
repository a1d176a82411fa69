/* The exported functions around a cache: NULL checks, then a call one floor down. */
#include "api/host_call.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/uncancelled.h"
#include "operation/append.h"
#include "operation/overlap.h"
#include "operation/rotary.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "reference/reference_append.h"
#include "reference/reference_rotary.h"
#include "reference/rotary_table.h"

/* ---- rotary embedding ------------------------------------------------------------------------- */

clattn_status clattn_rotary_table(const clattn_rotary_scaling *scaling, int64_t columns, int64_t rows,
                                  const int64_t *positions, float *cosine, float *sine)
{
    ROUNDED_TO_NEAREST;
    if (rows > 0) {
        REQUIRE(cosine);
        REQUIRE(sine);
    }
    return rotary_table(scaling, columns, rows, positions, cosine, sine);
}

clattn_status clattn_rotary_plan_create(clattn_context *context, const clattn_rotary_problem *problem,
                                        clattn_plan **plan)
{
    UNCANCELLED;
    REQUIRE(plan);
    *plan = NULL;
    struct rotary_problem checked;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = rotary_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? planner_plan(context, &checked.any, plan) : status;
}

clattn_status clattn_enqueue_rotary(const clattn_plan *plan, cl_command_queue queue, const clattn_cache_call *call,
                                    const clattn_rotary_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                    cl_event *done)
{
    UNCANCELLED;
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct rotary_call checked;
    clattn_status status = enqueue_check(plan, &operation_rotary, queue, done);
    if (status == CLATTN_OK) {
        status = rotary_call_from_device(rotary_problem_of(plan->problem), call, tensors, &checked);
    }
    return status == CLATTN_OK ? enqueue_plan(plan, &target, &checked.operands) : status;
}

clattn_status clattn_rotary_host(clattn_context *context, const clattn_rotary_problem *problem,
                                 const clattn_cache_call *call, const clattn_rotary_host_tensors *tensors)
{
    UNCANCELLED;
    struct rotary_problem checked;
    struct rotary_call checked_call;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = rotary_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = rotary_call_from_host(&checked, call, tensors, &checked_call);
    }
    return status == CLATTN_OK ? host_planned(context, &checked.any, &checked_call.operands) : status;
}

clattn_status clattn_reference_rotary(const clattn_rotary_problem *problem, const clattn_cache_call *call,
                                      const clattn_rotary_host_tensors *tensors)
{
    ROUNDED_TO_NEAREST;
    struct rotary_problem checked;
    struct rotary_call checked_call;
    clattn_status status = rotary_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = rotary_call_from_host(&checked, call, tensors, &checked_call);
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(&checked_call.operands, 0);
    }
    return status == CLATTN_OK ? reference_rotary(&checked, &checked_call) : status;
}

/* ---- append ----------------------------------------------------------------------------------- */

clattn_status clattn_append_plan_create(clattn_context *context, const clattn_append_problem *problem,
                                        clattn_plan **plan)
{
    UNCANCELLED;
    REQUIRE(plan);
    *plan = NULL;
    struct append_problem checked;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = append_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? planner_plan(context, &checked.any, plan) : status;
}

clattn_status clattn_enqueue_append(const clattn_plan *plan, cl_command_queue queue, const clattn_cache_call *call,
                                    const clattn_append_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                    cl_event *done)
{
    UNCANCELLED;
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct append_call checked;
    clattn_status status = enqueue_check(plan, &operation_append, queue, done);
    if (status == CLATTN_OK) {
        status = append_call_from_device(append_problem_of(plan->problem), call, tensors, &checked);
    }
    return status == CLATTN_OK ? enqueue_plan(plan, &target, &checked.operands) : status;
}

clattn_status clattn_append_host(clattn_context *context, const clattn_append_problem *problem,
                                 const clattn_cache_call *call, const clattn_append_host_tensors *tensors)
{
    UNCANCELLED;
    struct append_problem checked;
    struct append_call checked_call;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = append_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = append_call_from_host(&checked, call, tensors, &checked_call);
    }
    return status == CLATTN_OK ? host_planned(context, &checked.any, &checked_call.operands) : status;
}

clattn_status clattn_reference_append(const clattn_append_problem *problem, const clattn_cache_call *call,
                                      const clattn_append_host_tensors *tensors)
{
    ROUNDED_TO_NEAREST;
    struct append_problem checked;
    struct append_call checked_call;
    clattn_status status = append_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = append_call_from_host(&checked, call, tensors, &checked_call);
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(&checked_call.operands, 0);
    }
    return status == CLATTN_OK ? reference_append(&checked, &checked_call) : status;
}
