/* The exported functions of clattn_key_sums.h. */
#include "api/entry.h"
#include "base/growth.h"
#include "operation/key_sums.h"

/* clang-format off */
void clattn_key_sums_problem_init(clattn_key_sums_problem *to, size_t size)
{ GROWTH_INIT(clattn_key_sums_problem, CLATTN_KEY_SUMS_PROBLEM_INIT); }
void clattn_key_sums_init(clattn_key_sums *to, size_t size)
{ GROWTH_INIT(clattn_key_sums, CLATTN_KEY_SUMS_INIT); }
void clattn_host_key_sums_init(clattn_host_key_sums *to, size_t size)
{ GROWTH_INIT(clattn_host_key_sums, CLATTN_HOST_KEY_SUMS_INIT); }
/* clang-format on */

clattn_status clattn_key_sums_plan_create(clattn_context *context, const clattn_key_sums_problem *problem,
                                          clattn_plan **plan)
{
    return entry_plan(context, &operation_key_sums, problem, plan);
}

clattn_status clattn_enqueue_key_sums(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                      const clattn_tensors *tensors, const clattn_key_sums *sums, cl_uint n_wait,
                                      const cl_event *wait, cl_event *done)
{
    return entry_enqueue(plan, &operation_key_sums, GIVEN(call, tensors, sums), TARGET);
}

clattn_status clattn_key_sums_host(clattn_context *context, const clattn_key_sums_problem *problem,
                                   const clattn_call *call, const clattn_host_tensors *tensors,
                                   const clattn_host_key_sums *sums)
{
    return entry_host(context, &operation_key_sums, problem, GIVEN(call, tensors, sums));
}

clattn_status clattn_reference_key_sums(const clattn_key_sums_problem *problem, const clattn_call *call,
                                        const clattn_host_tensors *tensors, const clattn_host_key_sums *sums)
{
    return entry_reference(&operation_key_sums, problem, GIVEN(call, tensors, sums));
}
