#include "plan/enqueue.h"

#include "base/error.h"

static clattn_status check_workspace(const struct clattn_plan *plan, const struct call *call)
{
    if (plan->workspace_bytes == 0) {
        return CLATTN_OK;
    }
    size_t bytes = 0;
    if (!call->workspace) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "workspace: must be a buffer of %zu bytes (clattn_plan_workspace)",
                         plan->workspace_bytes);
    }
    clattn_status status = chain_check_buffer(plan->context, call->workspace, "workspace", &bytes);
    if (status == CLATTN_OK && bytes < plan->workspace_bytes) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "workspace of %zu bytes: must have %zu (clattn_plan_workspace)", bytes,
                         plan->workspace_bytes);
    }
    return status;
}

/* Every buffer must hold what its strides reach. Varlen: only as far as one sequence tells. */
static clattn_status check_buffers(const struct clattn_plan *plan, const struct call *call)
{
    for (int i = 0; i < TENSOR_COUNT; ++i) {
        const enum tensor_id id = (enum tensor_id)i;
        const struct tensor_place *place = &call->tensor[id];
        if (!place->buffer) {
            continue;
        }
        size_t bytes = 0, element_bytes = tensor_element_bytes(&plan->problem, id);
        int packed = plan->problem.flags & CLATTN_FLAG_VARLEN &&
                     (id <= TENSOR_LSE); /* rows of short sequences end before query_len */
        int64_t low, high;
        clattn_status status = chain_check_buffer(plan->context, place->buffer, tensor_name(id), &bytes);
        if (status == CLATTN_OK) {
            status = tensor_extent(&plan->problem, call, id, &low, &high);
        }
        if (status != CLATTN_OK) {
            return status;
        }
        if (!packed && (uint64_t)high > bytes / element_bytes) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "%s.buffer of %zu bytes: its strides reach element %lld of %zu bytes each",
                             tensor_name(id), bytes, (long long)(high - 1), element_bytes);
        }
    }
    return CLATTN_OK;
}

clattn_status plan_enqueue(const struct clattn_plan *plan, cl_command_queue queue, const struct call *call,
                           cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    struct chain chain;
    clattn_status status = chain_check_queue(plan->context, queue);
    if (status == CLATTN_OK) {
        status = chain_begin(&chain, queue, n_wait, wait, done);
    }
    if (status == CLATTN_OK) {
        status = check_workspace(plan, call);
    }
    if (status == CLATTN_OK) {
        status = check_buffers(plan, call);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    const clattn_problem *p = &plan->problem.p;
    if (p->batch > 0 && p->query_heads > 0 && call->query_len > 0) {
        clattn_params params;
        params_fill(&plan->problem, call, &params);
        status = plan->strategy->enqueue(plan, call, &params, &chain);
    }
    return chain_end(&chain, status);
}
