/* The exported init functions: a struct of the caller's size gets what its macro has, and zeros behind that. */
#include "base/growth.h"
#include "clattn_additive.h"
#include "clattn_backward.h"
#include "clattn_cache.h"
#include "clattn_costs.h"
#include "clattn_layers.h"

/* What such a function does with `to` and `struct_size`, its arguments. */
#define SET(type, defaults)                                                                                            \
    static const type values = defaults;                                                                               \
    growth_init(&values, sizeof(values), to, struct_size)

/* ---- clattn.h -------------------------------------------------------------------------------- */

void clattn_context_options_init(clattn_context_options *to, size_t struct_size)
{
    SET(clattn_context_options, CLATTN_CONTEXT_OPTIONS_INIT);
}

void clattn_problem_init(clattn_problem *to, size_t struct_size)
{
    SET(clattn_problem, CLATTN_PROBLEM_INIT);
}

void clattn_call_init(clattn_call *to, size_t struct_size)
{
    SET(clattn_call, CLATTN_CALL_INIT);
}

void clattn_tensors_init(clattn_tensors *to, size_t struct_size)
{
    SET(clattn_tensors, CLATTN_TENSORS_INIT);
}

void clattn_host_tensors_init(clattn_host_tensors *to, size_t struct_size)
{
    SET(clattn_host_tensors, CLATTN_HOST_TENSORS_INIT);
}

void clattn_merge_problem_init(clattn_merge_problem *to, size_t struct_size)
{
    SET(clattn_merge_problem, CLATTN_MERGE_PROBLEM_INIT);
}

/* ---- clattn_backward.h ----------------------------------------------------------------------- */

void clattn_backward_problem_init(clattn_backward_problem *to, size_t struct_size)
{
    SET(clattn_backward_problem, CLATTN_BACKWARD_PROBLEM_INIT);
}

void clattn_gradients_init(clattn_gradients *to, size_t struct_size)
{
    SET(clattn_gradients, CLATTN_GRADIENTS_INIT);
}

void clattn_host_gradients_init(clattn_host_gradients *to, size_t struct_size)
{
    SET(clattn_host_gradients, CLATTN_HOST_GRADIENTS_INIT);
}

/* ---- clattn_cache.h -------------------------------------------------------------------------- */

void clattn_rotary_scaling_init(clattn_rotary_scaling *to, size_t struct_size)
{
    SET(clattn_rotary_scaling, CLATTN_ROTARY_SCALING_INIT);
}

void clattn_rotary_problem_init(clattn_rotary_problem *to, size_t struct_size)
{
    SET(clattn_rotary_problem, CLATTN_ROTARY_PROBLEM_INIT);
}

void clattn_cache_call_init(clattn_cache_call *to, size_t struct_size)
{
    SET(clattn_cache_call, CLATTN_CACHE_CALL_INIT);
}

void clattn_rotary_tensors_init(clattn_rotary_tensors *to, size_t struct_size)
{
    SET(clattn_rotary_tensors, CLATTN_ROTARY_TENSORS_INIT);
}

void clattn_rotary_host_tensors_init(clattn_rotary_host_tensors *to, size_t struct_size)
{
    SET(clattn_rotary_host_tensors, CLATTN_ROTARY_HOST_TENSORS_INIT);
}

void clattn_append_problem_init(clattn_append_problem *to, size_t struct_size)
{
    SET(clattn_append_problem, CLATTN_APPEND_PROBLEM_INIT);
}

void clattn_append_tensors_init(clattn_append_tensors *to, size_t struct_size)
{
    SET(clattn_append_tensors, CLATTN_APPEND_TENSORS_INIT);
}

void clattn_append_host_tensors_init(clattn_append_host_tensors *to, size_t struct_size)
{
    SET(clattn_append_host_tensors, CLATTN_APPEND_HOST_TENSORS_INIT);
}

/* ---- clattn_layers.h ------------------------------------------------------------------------- */

void clattn_mha_problem_init(clattn_mha_problem *to, size_t struct_size)
{
    SET(clattn_mha_problem, CLATTN_MHA_PROBLEM_INIT);
}

void clattn_mha_arrays_init(clattn_mha_arrays *to, size_t struct_size)
{
    SET(clattn_mha_arrays, CLATTN_MHA_ARRAYS_INIT);
}

void clattn_mha_host_arrays_init(clattn_mha_host_arrays *to, size_t struct_size)
{
    SET(clattn_mha_host_arrays, CLATTN_MHA_HOST_ARRAYS_INIT);
}

void clattn_mha_backward_problem_init(clattn_mha_backward_problem *to, size_t struct_size)
{
    SET(clattn_mha_backward_problem, CLATTN_MHA_BACKWARD_PROBLEM_INIT);
}

void clattn_mha_gradients_init(clattn_mha_gradients *to, size_t struct_size)
{
    SET(clattn_mha_gradients, CLATTN_MHA_GRADIENTS_INIT);
}

void clattn_mha_host_gradients_init(clattn_mha_host_gradients *to, size_t struct_size)
{
    SET(clattn_mha_host_gradients, CLATTN_MHA_HOST_GRADIENTS_INIT);
}

/* ---- clattn_additive.h ----------------------------------------------------------------------- */

void clattn_additive_problem_init(clattn_additive_problem *to, size_t struct_size)
{
    SET(clattn_additive_problem, CLATTN_ADDITIVE_PROBLEM_INIT);
}

void clattn_additive_arrays_init(clattn_additive_arrays *to, size_t struct_size)
{
    SET(clattn_additive_arrays, CLATTN_ADDITIVE_ARRAYS_INIT);
}

void clattn_additive_host_arrays_init(clattn_additive_host_arrays *to, size_t struct_size)
{
    SET(clattn_additive_host_arrays, CLATTN_ADDITIVE_HOST_ARRAYS_INIT);
}

void clattn_additive_backward_problem_init(clattn_additive_backward_problem *to, size_t struct_size)
{
    SET(clattn_additive_backward_problem, CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT);
}

void clattn_additive_gradients_init(clattn_additive_gradients *to, size_t struct_size)
{
    SET(clattn_additive_gradients, CLATTN_ADDITIVE_GRADIENTS_INIT);
}

void clattn_additive_host_gradients_init(clattn_additive_host_gradients *to, size_t struct_size)
{
    SET(clattn_additive_host_gradients, CLATTN_ADDITIVE_HOST_GRADIENTS_INIT);
}

/* ---- clattn_costs.h -------------------------------------------------------------------------- */

void clattn_device_facts_init(clattn_device_facts *to, size_t struct_size)
{
    SET(clattn_device_facts, CLATTN_DEVICE_FACTS_INIT);
}

void clattn_context_costs_init(clattn_context_costs *to, size_t struct_size)
{
    SET(clattn_context_costs, CLATTN_CONTEXT_COSTS_INIT);
}

void clattn_program_costs_init(clattn_program_costs *to, size_t struct_size)
{
    SET(clattn_program_costs, CLATTN_PROGRAM_COSTS_INIT);
}

void clattn_plan_costs_init(clattn_plan_costs *to, size_t struct_size)
{
    SET(clattn_plan_costs, CLATTN_PLAN_COSTS_INIT);
}

void clattn_estimate_init(clattn_estimate *to, size_t struct_size)
{
    SET(clattn_estimate, CLATTN_ESTIMATE_INIT);
}

void clattn_kernel_time_init(clattn_kernel_time *to, size_t struct_size)
{
    SET(clattn_kernel_time, CLATTN_KERNEL_TIME_INIT);
}
