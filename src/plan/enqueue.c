/* Checks what only the device knows, and enqueues. */
#include "plan/enqueue.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "operation/overlap.h"

clattn_status enqueue_check(const struct clattn_plan *plan, const struct operation *operation, cl_command_queue queue,
                            cl_event *done)
{
    if (done) {
        *done = NULL;
    }
    REQUIRE(plan);
    REQUIRE(queue);
    const clattn_status status = context_check(plan->context);
    if (status != CLATTN_OK || plan->problem->operation == operation) {
        return status;
    }
    return error_set(CLATTN_INVALID_ARGUMENT, "plan: computes %s, and this call is for plans of %s",
                     plan->problem->operation->name, operation->name);
}

static clattn_status check_workspace(const clattn_context *context, const struct operands *operands,
                                     size_t needed_bytes)
{
    if (needed_bytes == 0) {
        return CLATTN_OK;
    }
    size_t bytes = 0;
    if (!operands->workspace) {
        return error_set(CLATTN_INVALID_ARGUMENT, "workspace: must be a buffer of %zu bytes (%s)", needed_bytes,
                         operands->operation->workspace_function);
    }
    clattn_status status = chain_check_buffer(context, operands->workspace, "workspace", &bytes);
    if (status == CLATTN_OK && bytes < needed_bytes) {
        return error_set(CLATTN_INVALID_ARGUMENT, "workspace of %zu bytes: must have %zu (%s)", bytes, needed_bytes,
                         operands->operation->workspace_function);
    }
    return status == CLATTN_OK ? chain_check_access(operands->workspace, "workspace", 1, 1) : status;
}

/* The buffer must hold what the strides reach; only as far as is known, where extents are only the device's. */
static clattn_status check_buffer(const clattn_context *context, const struct operands *operands, int id)
{
    const int64_t element_bytes = (int64_t)operand_bytes(operands, id);
    const int rows_unknown = (operands->unknown_extents >> operands->operation->rows[id].axis[2] & 1) != 0;
    const int64_t high = operands->tensor[id].high;
    int64_t reached = 0;
    size_t bytes = 0;
    clattn_status status = chain_check_buffer(context, operands->tensor[id].buffer, operand_name(operands, id), &bytes);
    if (status == CLATTN_OK && !rows_unknown &&
        (!checked_multiply(high, element_bytes, &reached) || (uint64_t)reached > bytes)) {
        status = error_set(CLATTN_INVALID_SHAPE,
                           "%s.buffer of %zu bytes: its strides reach element %lld of %lld bytes each",
                           operand_name(operands, id), bytes, (long long)(high - 1), (long long)element_bytes);
    }
    const struct tensor_row *row = operand_row(operands, id);
    if (status == CLATTN_OK && row->field == FIELD_TENSOR && row->dense && row->is_apart &&
        operands->tensor[id].offset > UINT32_MAX) {
        status = error_set(CLATTN_INVALID_SHAPE, "%s.offset %lld: must be below 2^32, which kernels count in",
                           operand_name(operands, id), (long long)operands->tensor[id].offset);
    }
    if (status == CLATTN_OK) {
        status = chain_check_access(operands->tensor[id].buffer, operand_name(operands, id),
                                    operand_is_read(operands, id), operand_is_written(operands, id));
    }
    return status;
}

clattn_status enqueue_begin(clattn_context *context, const struct enqueue_target *target,
                            const struct operands *operands, size_t workspace_bytes, struct chain *chain)
{
    clattn_status status = chain_check_queue(context, target->queue);
    if (status == CLATTN_OK) {
        status = chain_begin(chain, target->queue, target->n_wait, target->wait, target->done);
        chain->times = kernel_times_of(context, target->queue);
    }
    if (status == CLATTN_OK) {
        status = check_workspace(context, operands, workspace_bytes);
    }
    for (int id = 0; operand_follows(operands, id) && status == CLATTN_OK; ++id) {
        if (operands->tensor[id].buffer) {
            status = check_buffer(context, operands, id);
        }
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(operands, workspace_bytes);
    }
    return status;
}

clattn_status enqueue_in_chain(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    return operands_are_empty(operands) ? CLATTN_OK : plan->strategy->enqueue(plan, operands, chain);
}

clattn_status enqueue_plan(const struct clattn_plan *plan, const struct enqueue_target *target,
                           const struct operands *operands)
{
    struct chain chain;
    clattn_status status = enqueue_begin(plan->context, target, operands, plan->workspace_bytes, &chain);
    return status == CLATTN_OK ? chain_end(&chain, enqueue_in_chain(plan, operands, &chain)) : status;
}
