/* The exported functions of clattn_cache.h. */
#include "api/entry.h"
#include "base/error.h"
#include "base/growth.h"
#include "base/nearest.h"
#include "operation/append.h"
#include "operation/rotary.h"
#include "reference/rotary_table.h"

/* ---- structs --------------------------------------------------------------------------------- */

/* clang-format off */
void clattn_rotary_scaling_init(clattn_rotary_scaling *to, size_t size)
{ GROWTH_INIT(clattn_rotary_scaling, CLATTN_ROTARY_SCALING_INIT); }
void clattn_rotary_problem_init(clattn_rotary_problem *to, size_t size)
{ GROWTH_INIT(clattn_rotary_problem, CLATTN_ROTARY_PROBLEM_INIT); }
void clattn_cache_call_init(clattn_cache_call *to, size_t size)
{ GROWTH_INIT(clattn_cache_call, CLATTN_CACHE_CALL_INIT); }
void clattn_rotary_tensors_init(clattn_rotary_tensors *to, size_t size)
{ GROWTH_INIT(clattn_rotary_tensors, CLATTN_ROTARY_TENSORS_INIT); }
void clattn_rotary_host_tensors_init(clattn_rotary_host_tensors *to, size_t size)
{ GROWTH_INIT(clattn_rotary_host_tensors, CLATTN_ROTARY_HOST_TENSORS_INIT); }
void clattn_append_problem_init(clattn_append_problem *to, size_t size)
{ GROWTH_INIT(clattn_append_problem, CLATTN_APPEND_PROBLEM_INIT); }
void clattn_append_tensors_init(clattn_append_tensors *to, size_t size)
{ GROWTH_INIT(clattn_append_tensors, CLATTN_APPEND_TENSORS_INIT); }
void clattn_append_host_tensors_init(clattn_append_host_tensors *to, size_t size)
{ GROWTH_INIT(clattn_append_host_tensors, CLATTN_APPEND_HOST_TENSORS_INIT); }
/* clang-format on */

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
    return entry_plan(context, &operation_rotary, problem, plan);
}

clattn_status clattn_enqueue_rotary(const clattn_plan *plan, cl_command_queue queue, const clattn_cache_call *call,
                                    const clattn_rotary_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                    cl_event *done)
{
    return entry_enqueue(plan, &operation_rotary, GIVEN(call, tensors), TARGET);
}

clattn_status clattn_rotary_host(clattn_context *context, const clattn_rotary_problem *problem,
                                 const clattn_cache_call *call, const clattn_rotary_host_tensors *tensors)
{
    return entry_host(context, &operation_rotary, problem, GIVEN(call, tensors));
}

clattn_status clattn_reference_rotary(const clattn_rotary_problem *problem, const clattn_cache_call *call,
                                      const clattn_rotary_host_tensors *tensors)
{
    return entry_reference(&operation_rotary, problem, GIVEN(call, tensors));
}

/* ---- append ----------------------------------------------------------------------------------- */

clattn_status clattn_append_plan_create(clattn_context *context, const clattn_append_problem *problem,
                                        clattn_plan **plan)
{
    return entry_plan(context, &operation_append, problem, plan);
}

clattn_status clattn_enqueue_append(const clattn_plan *plan, cl_command_queue queue, const clattn_cache_call *call,
                                    const clattn_append_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                    cl_event *done)
{
    return entry_enqueue(plan, &operation_append, GIVEN(call, tensors), TARGET);
}

clattn_status clattn_append_host(clattn_context *context, const clattn_append_problem *problem,
                                 const clattn_cache_call *call, const clattn_append_host_tensors *tensors)
{
    return entry_host(context, &operation_append, problem, GIVEN(call, tensors));
}

clattn_status clattn_reference_append(const clattn_append_problem *problem, const clattn_cache_call *call,
                                      const clattn_append_host_tensors *tensors)
{
    return entry_reference(&operation_append, problem, GIVEN(call, tensors));
}
