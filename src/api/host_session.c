/* Copies tensors between host and device. */
#include "api/host_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "operation/overlap.h"

/* How much is copied, and from where. */
static size_t bytes_of(const struct host_session *session, int id)
{
    const struct tensor_place *place = &session->host->tensor[id];
    return (size_t)(place->high - place->low) * operand_bytes(session->host, id);
}

static char *first_of(const struct host_session *session, int id)
{
    const struct tensor_place *place = &session->host->tensor[id];
    return (char *)place->data + place->low * (int64_t)operand_bytes(session->host, id);
}

/* total + count * element_bytes, or the largest number there is: more than any device has. */
static uint64_t saturating_sum(uint64_t total, int64_t count, size_t element_bytes)
{
    return (uint64_t)count > (UINT64_MAX - total) / element_bytes ? UINT64_MAX
                                                                  : total + (uint64_t)count * element_bytes;
}

/* What the call takes in all must be there. */
static clattn_status check_memory(const struct host_session *session, size_t workspace_bytes)
{
    const struct operands *host = session->host;
    uint64_t total = workspace_bytes;
    for (int id = 0; id < host->operation->count; ++id) {
        const struct tensor_place *place = &host->tensor[id];
        if (place->data) {
            total = saturating_sum(total, place->high - place->low, operand_bytes(host, id));
        }
    }
    const struct device *device = &session->context->device;
    if (total > device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "this call needs %llu bytes of device memory, workspace of %zu bytes included; device \"%s\" "
                         "has %llu",
                         (unsigned long long)total, workspace_bytes, device->name,
                         (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

static clattn_status create_buffer(struct host_session *session, const char *name, cl_mem_flags flags, size_t bytes,
                                   void *content, cl_mem *buffer)
{
    cl_int code;
    *buffer = clCreateBuffer(session->context->cl, flags, bytes, content, &code);
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clCreateBuffer", "%s of %zu bytes", name, bytes);
}

static clattn_status copy_in(struct host_session *session, int id)
{
    struct tensor_place *place = &session->device.tensor[id];
    const size_t bytes = bytes_of(session, id);
    place->data = NULL;
    if (bytes == 0 || !session->host->tensor[id].data) {
        return CLATTN_OK;
    }
    place->offset -= place->low;
    place->high -= place->low;
    place->low = 0;
    const cl_mem_flags access = operand_is_written(session->host, id) ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
    const int is_read = operand_is_read(session->host, id);
    return create_buffer(session, operand_name(session->host, id), access | (is_read ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                         is_read ? first_of(session, id) : NULL, &place->buffer);
}

clattn_status host_session_begin(struct host_session *session, clattn_context *context, const struct operands *host,
                                 size_t workspace_bytes)
{
    memset(session, 0, sizeof(*session));
    session->context = context;
    session->host = host;
    session->device = *host;
    session->device.workspace = NULL;
    clattn_status status = operands_check_outputs_apart(host);
    if (status == CLATTN_OK) {
        status = check_memory(session, workspace_bytes);
    }
    for (int id = 0; id < host->operation->count && status == CLATTN_OK; ++id) {
        status = copy_in(session, id);
    }
    if (status == CLATTN_OK && workspace_bytes > 0) {
        status =
            create_buffer(session, "workspace", CL_MEM_READ_WRITE, workspace_bytes, NULL, &session->device.workspace);
    }
    return status;
}

/* Copies the tensor's elements, and nothing between them, from a copy of [low, high). */
static void scatter(const struct host_session *session, int id, const char *copy)
{
    const struct tensor_place *place = &session->host->tensor[id];
    const int64_t element_bytes = (int64_t)operand_bytes(session->host, id);
    int64_t shape[4];
    operand_shape(session->host, id, shape);
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            for (int64_t i = 0; i < shape[2]; ++i) {
                for (int64_t c = 0; c < shape[3]; ++c) {
                    int64_t at = place->offset + b * place->stride[0] + h * place->stride[1] + i * place->stride[2] +
                                 c * place->stride[3];
                    memcpy((char *)place->data + at * element_bytes, copy + (at - place->low) * element_bytes,
                           (size_t)element_bytes);
                }
            }
        }
    }
}

static clattn_status copy_out(struct host_session *session, int id)
{
    const int dense = operand_is_dense(session->host, id);
    const size_t bytes = bytes_of(session, id);
    char *target = dense ? first_of(session, id) : malloc(bytes);
    if (!target) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory: %zu bytes for %s", bytes,
                         operand_name(session->host, id));
    }
    cl_int code = clEnqueueReadBuffer(session->context->queue, session->device.tensor[id].buffer, CL_TRUE, 0, bytes,
                                      target, 0, NULL, NULL);
    if (!dense) {
        if (code == CL_SUCCESS) {
            scatter(session, id, target);
        }
        free(target);
    }
    return code == CL_SUCCESS
               ? CLATTN_OK
               : error_opencl(code, "clEnqueueReadBuffer", "%s of %zu bytes", operand_name(session->host, id), bytes);
}

clattn_status host_session_finish(struct host_session *session, cl_event done)
{
    cl_int code = clWaitForEvents(1, &done);
    clReleaseEvent(done);
    clattn_status status = code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clWaitForEvents", "the kernels failed");
    for (int id = 0; id < session->host->operation->count && status == CLATTN_OK; ++id) {
        if (operand_is_written(session->host, id) && session->device.tensor[id].buffer) {
            status = copy_out(session, id);
        }
    }
    return status;
}

void host_session_end(struct host_session *session, clattn_status status)
{
    if (status != CLATTN_OK) {
        clFinish(session->context->queue);
    }
    for (int id = 0; id < session->host->operation->count; ++id) {
        if (session->device.tensor[id].buffer) {
            clReleaseMemObject(session->device.tensor[id].buffer);
        }
    }
    if (session->device.workspace) {
        clReleaseMemObject(session->device.workspace);
    }
}
