/* Blocking calls on host memory. */
#include "api/host_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "plan/enqueue.h"
#include "plan/kept_plans.h"

/* ---- copies ---------------------------------------------------------------------------------- */

/* The device's copy of one host tensor: elements [low, high) of it. */
struct transfer {
    int64_t low, high;
    size_t element_bytes;
    int dense; /* every element of [low, high) is the tensor's */
};

struct session {
    clattn_context *context;
    const struct problem *problem;
    const struct call *host;
    struct call device;
    struct transfer transfers[TENSOR_COUNT];
};

/* Whether the axes nest without a gap, in whatever order: then every place in reach is an element. */
static int is_dense(const struct session *session, enum tensor_id id)
{
    const int64_t *stride = session->host->tensor[id].stride;
    int64_t shape[4], filled = 1;
    int left = 0, found = 1;
    tensor_shape(session->problem, session->host, id, shape);
    for (int axis = 0; axis < 4; ++axis) {
        left |= shape[axis] > 1 ? 1 << axis : 0;
    }
    while (left && found) {
        found = 0;
        for (int axis = 0; axis < 4 && !found; ++axis) {
            if (left & 1 << axis && stride[axis] == filled) {
                found = checked_multiply(filled, shape[axis], &filled);
                left &= ~(1 << axis);
            }
        }
    }
    return left == 0 && found;
}

/* total + count * element_bytes, or the largest number there is: more than any device has. */
static uint64_t saturating_sum(uint64_t total, int64_t count, size_t element_bytes)
{
    return (uint64_t)count > (UINT64_MAX - total) / element_bytes
               ? UINT64_MAX
               : total + (uint64_t)count * element_bytes;
}

static clattn_status measure(struct session *session, size_t workspace_bytes)
{
    uint64_t total = workspace_bytes;
    for (int i = 0; i < TENSOR_COUNT; ++i) {
        const enum tensor_id id = (enum tensor_id)i;
        struct transfer *transfer = &session->transfers[i];
        if (!session->host->tensor[id].data) {
            continue;
        }
        clattn_status status =
            tensor_extent(session->problem, session->host, id, &transfer->low, &transfer->high);
        if (status != CLATTN_OK) {
            return status;
        }
        transfer->element_bytes = tensor_element_bytes(session->problem, id);
        transfer->dense = is_dense(session, id);
        total = saturating_sum(total, transfer->high - transfer->low, transfer->element_bytes);
    }
    const struct device *device = &session->context->device;
    if (total > device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "this call needs %llu bytes of device memory, workspace of %zu bytes included; "
                         "device \"%s\" has %llu",
                         (unsigned long long)total, workspace_bytes, device->name,
                         (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

static clattn_status create_buffer(struct session *session, const char *name, cl_mem_flags flags,
                                   size_t bytes, void *content, cl_mem *buffer)
{
    cl_int code;
    *buffer = clCreateBuffer(session->context->cl, flags, bytes, content, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateBuffer", "%s of %zu bytes", name, bytes);
    }
    return CLATTN_OK;
}

static clattn_status copy_in(struct session *session, size_t workspace_bytes)
{
    for (int i = 0; i < TENSOR_COUNT; ++i) {
        const enum tensor_id id = (enum tensor_id)i;
        const struct transfer *transfer = &session->transfers[i];
        struct tensor_place *place = &session->device.tensor[id];
        *place = session->host->tensor[id];
        place->data = NULL;
        if (transfer->high == transfer->low) {
            continue;
        }
        place->offset -= transfer->low;
        size_t bytes = (size_t)(transfer->high - transfer->low) * transfer->element_bytes;
        char *first = (char *)session->host->tensor[id].data +
                      transfer->low * (int64_t)transfer->element_bytes;
        int output = tensor_is_output(id);
        clattn_status status =
            create_buffer(session, tensor_name(id),
                          output ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                          output ? NULL : first, &place->buffer);
        if (status != CLATTN_OK) {
            return status;
        }
    }
    if (workspace_bytes == 0) {
        return CLATTN_OK;
    }
    return create_buffer(session, "workspace", CL_MEM_READ_WRITE, workspace_bytes, NULL,
                         &session->device.workspace);
}

/* Copies the tensor's elements, and nothing between them, from a copy of [low, high). */
static void scatter(const struct session *session, enum tensor_id id, const char *copy)
{
    const struct transfer *transfer = &session->transfers[id];
    const struct tensor_place *place = &session->host->tensor[id];
    int64_t shape[4];
    tensor_shape(session->problem, session->host, id, shape);
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            for (int64_t i = 0; i < shape[2]; ++i) {
                for (int64_t c = 0; c < shape[3]; ++c) {
                    int64_t at = place->offset + b * place->stride[0] + h * place->stride[1] +
                                 i * place->stride[2] + c * place->stride[3];
                    memcpy((char *)place->data + at * (int64_t)transfer->element_bytes,
                           copy + (at - transfer->low) * (int64_t)transfer->element_bytes,
                           transfer->element_bytes);
                }
            }
        }
    }
}

static clattn_status copy_out_one(struct session *session, enum tensor_id id)
{
    const struct transfer *transfer = &session->transfers[id];
    size_t bytes = (size_t)(transfer->high - transfer->low) * transfer->element_bytes;
    char *first =
        (char *)session->host->tensor[id].data + transfer->low * (int64_t)transfer->element_bytes;
    char *target = transfer->dense ? first : malloc(bytes);
    if (!target) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory: %zu bytes for %s", bytes,
                         tensor_name(id));
    }
    cl_int code = clEnqueueReadBuffer(session->context->queue, session->device.tensor[id].buffer,
                                      CL_TRUE, 0, bytes, target, 0, NULL, NULL);
    if (code == CL_SUCCESS && !transfer->dense) {
        scatter(session, id, target);
    }
    if (!transfer->dense) {
        free(target);
    }
    return code == CL_SUCCESS ? CLATTN_OK
                              : error_opencl(code, "clEnqueueReadBuffer", "%s of %zu bytes",
                                             tensor_name(id), bytes);
}

static clattn_status copy_out(struct session *session)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < TENSOR_COUNT && status == CLATTN_OK; ++i) {
        if (tensor_is_output((enum tensor_id)i) && session->device.tensor[i].buffer) {
            status = copy_out_one(session, (enum tensor_id)i);
        }
    }
    return status;
}

static void release(struct session *session)
{
    for (int i = 0; i < TENSOR_COUNT; ++i) {
        if (session->device.tensor[i].buffer) {
            clReleaseMemObject(session->device.tensor[i].buffer);
        }
    }
    if (session->device.workspace) {
        clReleaseMemObject(session->device.workspace);
    }
}

clattn_status host_forward(clattn_context *context, const struct problem *problem,
                           const struct call *call)
{
    struct clattn_plan *plan;
    clattn_status status = call_check_host_values(problem, call);
    if (status == CLATTN_OK) {
        status = kept_plans_take(context, problem, &plan);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    struct session session = { .context = context, .problem = problem, .host = call };
    session.device = *call;
    memset(session.device.tensor, 0, sizeof(session.device.tensor));
    status = measure(&session, plan->workspace_bytes);
    if (status == CLATTN_OK) {
        status = copy_in(&session, plan->workspace_bytes);
    }
    cl_event done = NULL;
    if (status == CLATTN_OK) {
        status = plan_enqueue(plan, context->queue, &session.device, 0, NULL, &done);
    }
    if (status == CLATTN_OK) {
        cl_int code = clWaitForEvents(1, &done);
        clReleaseEvent(done);
        status = code == CL_SUCCESS ? copy_out(&session)
                                    : error_opencl(code, "clWaitForEvents", "the kernels failed");
    }
    if (status != CLATTN_OK) {
        clFinish(context->queue); /* part of it may be running on these buffers */
    }
    release(&session);
    kept_plans_put(context, plan);
    return status;
}
