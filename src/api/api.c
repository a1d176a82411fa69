/* The exported functions of clattn.h: NULL checks, then a call one floor down. */
#include <stdlib.h>

#include "api/describe.h"
#include "api/entry.h"
#include "api/new_context.h"
#include "base/error.h"
#include "base/growth.h"
#include "base/nearest.h"
#include "base/uncancelled.h"
#include "device/device_list.h"
#include "device/environment.h"
#include "layers/merge.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "program/context.h"
#include "reference/alibi.h"

/* ---- structs --------------------------------------------------------------------------------- */

/* clang-format off */
void clattn_context_options_init(clattn_context_options *to, size_t size)
{ GROWTH_INIT(clattn_context_options, CLATTN_CONTEXT_OPTIONS_INIT); }
void clattn_problem_init(clattn_problem *to, size_t size)
{ GROWTH_INIT(clattn_problem, CLATTN_PROBLEM_INIT); }
void clattn_call_init(clattn_call *to, size_t size)
{ GROWTH_INIT(clattn_call, CLATTN_CALL_INIT); }
void clattn_tensors_init(clattn_tensors *to, size_t size)
{ GROWTH_INIT(clattn_tensors, CLATTN_TENSORS_INIT); }
void clattn_host_tensors_init(clattn_host_tensors *to, size_t size)
{ GROWTH_INIT(clattn_host_tensors, CLATTN_HOST_TENSORS_INIT); }
void clattn_user_code_init(clattn_user_code *to, size_t size)
{ GROWTH_INIT(clattn_user_code, CLATTN_USER_CODE_INIT); }
void clattn_merge_problem_init(clattn_merge_problem *to, size_t size)
{ GROWTH_INIT(clattn_merge_problem, CLATTN_MERGE_PROBLEM_INIT); }
/* clang-format on */

const char *clattn_last_error(void)
{
    return error_text();
}

int clattn_last_error_native(void)
{
    return error_native();
}

/* ---- context -------------------------------------------------------------------------------- */

clattn_status clattn_context_create(cl_context cl, cl_device_id device, const clattn_context_options *options,
                                    clattn_context **context)
{
    UNCANCELLED;
    REQUIRE(context);
    *context = NULL;
    REQUIRE(cl);
    REQUIRE(device);
    clattn_status status = context_check_process();
    return status == CLATTN_OK ? new_context(cl, device, options, context) : status;
}

clattn_status clattn_context_open(const char *device, const clattn_context_options *options, clattn_context **context)
{
    UNCANCELLED;
    REQUIRE(context);
    *context = NULL;
    cl_device_id id;
    clattn_status status = context_check_process();
    if (status == CLATTN_OK) {
        status = device_find(device, &id);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    cl_int code;
    cl_context cl = clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateContext", "%s", "the device was found but cannot be used");
    }
    status = new_context(cl, id, options, context);
    clReleaseContext(cl);
    return status;
}

void clattn_context_destroy(clattn_context *context)
{
    UNCANCELLED;
    if (context) {
        context_destroy(context);
    }
}

cl_context clattn_context_cl(const clattn_context *context)
{
    return context ? context->cl : NULL;
}

cl_device_id clattn_context_device(const clattn_context *context)
{
    return context ? context->device.id : NULL;
}

cl_command_queue clattn_context_queue(const clattn_context *context)
{
    return context ? context->queue : NULL;
}

clattn_status clattn_describe_devices(int as_json, char **text)
{
    UNCANCELLED;
    REQUIRE(text);
    *text = NULL;
    clattn_status status = context_check_process();
    return status == CLATTN_OK ? describe_devices(environment_device(), as_json, text) : status;
}

void clattn_free(void *memory)
{
    free(memory);
}

/* ---- plan ----------------------------------------------------------------------------------- */

clattn_status clattn_plan_create(clattn_context *context, const clattn_problem *problem, clattn_plan **plan)
{
    return entry_plan(context, &operation_forward, problem, plan);
}

void clattn_plan_destroy(clattn_plan *plan)
{
    UNCANCELLED;
    planner_destroy(plan);
}

size_t clattn_plan_workspace(const clattn_plan *plan)
{
    return plan ? plan->workspace_bytes : 0;
}

const char *clattn_plan_strategy(const clattn_plan *plan)
{
    return plan ? plan->strategy->name : "";
}

double clattn_plan_weight_rounding(const clattn_plan *plan)
{
    return plan ? plan->weight_rounding : 0;
}

double clattn_plan_sum_roundings(const clattn_plan *plan)
{
    return plan ? plan->sum_roundings : 0;
}

double clattn_plan_factor_rounding(const clattn_plan *plan)
{
    return plan ? plan->factor_rounding : 0;
}

const char *clattn_plan_explain(const clattn_plan *plan)
{
    return plan ? plan->explain : "";
}

/* ---- computing ------------------------------------------------------------------------------ */

clattn_status clattn_enqueue_forward(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                     const clattn_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                     cl_event *done)
{
    return entry_enqueue(plan, &operation_forward, GIVEN(call, tensors), TARGET);
}

clattn_status clattn_forward_host(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                                  const clattn_host_tensors *tensors)
{
    return entry_host(context, &operation_forward, problem, GIVEN(call, tensors));
}

clattn_status clattn_enqueue_host(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                  const clattn_host_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                  cl_event *done)
{
    return entry_enqueue_host(plan, &operation_forward, GIVEN(call, tensors), TARGET);
}

uint64_t clattn_bytes_copied(const clattn_context *context)
{
    return context ? context->copied : 0;
}

clattn_status clattn_attention(clattn_context *context, clattn_type type, int64_t batch, int64_t query_heads,
                               int64_t kv_heads, int64_t query_len, int64_t key_len, int64_t head_dim,
                               clattn_alignment causal, const void *query, const void *key, const void *value,
                               void *out)
{
    UNCANCELLED;
    if (causal == CLATTN_ALIGN_OFFSETS) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "causal CLATTN_ALIGN_OFFSETS: needs offsets; use clattn_forward_host");
    }
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.type = type;
    problem.batch = batch;
    problem.query_heads = query_heads;
    problem.kv_heads = kv_heads;
    problem.query_len = query_len;
    problem.key_len = key_len;
    problem.head_dim = head_dim;
    problem.causal = causal != CLATTN_ALIGN_UNSET;
    problem.alignment = causal;
    struct problem checked; /* before strides are computed from shapes that may be wild */
    clattn_status status = problem_init(&checked, &problem);
    if (status != CLATTN_OK) {
        return status;
    }
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = clattn_host_tensor_bhsd(query, query_heads, query_len, head_dim);
    tensors.key = clattn_host_tensor_bhsd(key, kv_heads, key_len, head_dim);
    tensors.value = clattn_host_tensor_bhsd(value, kv_heads, key_len, head_dim);
    tensors.out = clattn_host_tensor_bhsd(out, query_heads, query_len, head_dim);
    return clattn_forward_host(context, &problem, NULL, &tensors);
}

clattn_status clattn_reference_forward(const clattn_problem *problem, const clattn_call *call,
                                       const clattn_host_tensors *tensors)
{
    return entry_reference(&operation_forward, problem, GIVEN(call, tensors));
}

clattn_status clattn_merge(clattn_context *context, cl_command_queue queue, const clattn_merge_problem *problem,
                           int64_t count, const clattn_partial *partials, const clattn_partial *merged, cl_uint n_wait,
                           const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    if (done) {
        *done = NULL;
    }
    clattn_status status = context_check(context);
    if (status != CLATTN_OK) {
        return status;
    }
    REQUIRE(queue);
    REQUIRE(partials);
    REQUIRE(merged);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    return merge_enqueue(context, problem, count, partials, merged, &target);
}

clattn_status clattn_alibi_slopes(int64_t heads, float *slopes)
{
    ROUNDED_TO_NEAREST;
    if (heads < 0) {
        return error_set(CLATTN_INVALID_SHAPE, "heads %lld: must be >= 0", (long long)heads);
    }
    if (heads > 0) {
        REQUIRE(slopes);
    }
    alibi_slopes(heads, slopes);
    return CLATTN_OK;
}
