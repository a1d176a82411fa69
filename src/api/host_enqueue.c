/* A call on host memory that does not wait: copies go the queue's way, before the kernels and after them. */
#include "api/host_enqueue.h"

#include "base/error.h"
#include "plan/host_session.h"

/* Events that a command waits for, or that the caller's event is made of; all owned. */
struct events {
    cl_uint count;
    cl_event event[OPERANDS_MAX + 1]; /* a command for each tensor, and the kernels */
};

static void events_add(struct events *events, cl_event event)
{
    if (event) {
        events->event[events->count++] = event;
    }
}

static void events_release(struct events *events)
{
    while (events->count > 0) {
        clReleaseEvent(events->event[--events->count]);
    }
}

/* What is between the elements of a copied output must not be written, and a queue copies no such pattern. */
static clattn_status check_outputs(const struct host_session *session)
{
    for (int id = 0; id < session->host->operation->count; ++id) {
        if (operand_is_written(session->host, id) && host_session_copies(session, id) &&
            !operand_is_dense(session->host, id)) {
            return error_set(CLATTN_UNSUPPORTED,
                             "%s: has gaps between its elements, and cannot be used where it lies: device \"%s\" does "
                             "not share the host's memory, or other tensors lie in the gaps; make it dense, or use "
                             "clattn_forward_host",
                             operand_name(session->host, id), session->context->device.name);
        }
    }
    return CLATTN_OK;
}

static clattn_status copies_in(struct host_session *session, const struct enqueue_target *target, struct events *copied)
{
    for (int id = 0; id < session->host->operation->count; ++id) {
        if (!operand_is_read(session->host, id) || !host_session_copies(session, id)) {
            continue;
        }
        const size_t bytes = host_session_bytes(session, id);
        cl_event event = NULL;
        const cl_int code = clEnqueueWriteBuffer(target->queue, session->device.tensor[id].buffer, CL_FALSE, 0, bytes,
                                                 host_session_first(session, id), target->n_wait, target->wait, &event);
        if (code != CL_SUCCESS) {
            return error_opencl(code, "clEnqueueWriteBuffer", "%s of %zu bytes", operand_name(session->host, id),
                                bytes);
        }
        events_add(copied, event);
        atomic_fetch_add(&session->context->copied, bytes);
    }
    return CLATTN_OK;
}

static clattn_status copy_out(struct host_session *session, int id, cl_command_queue queue, cl_event computed,
                              cl_event *copied)
{
    const size_t bytes = host_session_bytes(session, id);
    const cl_int code = clEnqueueReadBuffer(queue, session->device.tensor[id].buffer, CL_FALSE, 0, bytes,
                                            host_session_first(session, id), 1, &computed, copied);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clEnqueueReadBuffer", "%s of %zu bytes", operand_name(session->host, id), bytes);
    }
    atomic_fetch_add(&session->context->copied, bytes);
    return CLATTN_OK;
}

/* What is written becomes valid in host memory. */
static clattn_status outputs(struct host_session *session, cl_command_queue queue, cl_event computed,
                             struct events *shown)
{
    clattn_status status = CLATTN_OK;
    for (int id = 0; id < session->host->operation->count && status == CLATTN_OK; ++id) {
        cl_event event = NULL;
        if (operand_is_written(session->host, id) && host_session_copies(session, id)) {
            status = copy_out(session, id, queue, computed, &event);
        } else {
            status = host_session_show(session, id, computed, &event);
        }
        events_add(shown, event);
    }
    return status;
}

static clattn_status run(const struct clattn_plan *plan, const struct enqueue_target *target,
                         struct host_session *session, struct operands *operands)
{
    struct events before = { 0 }, after = { 0 };
    cl_event computed = NULL;
    clattn_status status = copies_in(session, target, &before);
    const struct enqueue_target kernels = { target->queue, before.count ? before.count : target->n_wait,
                                            before.count ? before.event : target->wait, &computed };
    if (status == CLATTN_OK) {
        *operands = session->device;
        status = enqueue_plan(plan, &kernels, operands);
    }
    if (status == CLATTN_OK) {
        status = outputs(session, target->queue, computed, &after);
        events_add(&after, computed);
    }
    if (status == CLATTN_OK && target->done) {
        const cl_int code = clEnqueueMarkerWithWaitList(target->queue, after.count, after.event, target->done);
        status = code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clEnqueueMarkerWithWaitList", "the call's end");
    }
    events_release(&before);
    events_release(&after);
    return status;
}

clattn_status host_enqueue(const struct clattn_plan *plan, const struct enqueue_target *target,
                           struct operands *operands)
{
    const struct operands host = *operands;
    struct host_session session;
    clattn_status status =
        host_session_begin(&session, plan->context, target->queue, &host, plan->workspace_bytes, HOST_CONTENT_LATER);
    if (status == CLATTN_OK) {
        status = check_outputs(&session);
    }
    if (status == CLATTN_OK) {
        status = chain_check_queue(plan->context, target->queue);
    }
    if (status == CLATTN_OK) { /* copies come before the chain, which looks at it too */
        status = chain_check_wait(target->n_wait, target->wait);
    }
    if (status == CLATTN_OK) {
        status = run(plan, target, &session, operands);
    }
    host_session_release(&session);
    return status;
}
