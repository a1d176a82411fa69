/* Copies tensors between host and device. */
#include "plan/host_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "operation/overlap.h"
#include "plan/enqueue.h"

size_t host_session_bytes(const struct host_session *session, int id)
{
    const struct tensor_place *place = &session->host->tensor[id];
    return (size_t)(place->high - place->low) * operand_bytes(session->host, id);
}

char *host_session_first(const struct host_session *session, int id)
{
    const struct tensor_place *place = &session->host->tensor[id];
    return (char *)place->data + place->low * (int64_t)operand_bytes(session->host, id);
}

int host_session_copies(const struct host_session *session, int id)
{
    return session->host->tensor[id].data && host_session_bytes(session, id) > 0 && session->regions.of[id] < 0;
}

/* total + count * element_bytes, or the largest number there is: more than any device has. */
static uint64_t saturating_sum(uint64_t total, int64_t count, size_t element_bytes)
{
    return (uint64_t)count > (UINT64_MAX - total) / element_bytes ? UINT64_MAX
                                                                  : total + (uint64_t)count * element_bytes;
}

/* What the call takes in all must be there, whether it is copied or not: beyond that addresses are not numbers. */
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
    const struct device *device = &session->context->device;
    cl_int code;
    *buffer = clCreateBuffer(session->context->cl, flags, bytes, content, &code);
    if (code != CL_SUCCESS && bytes > device->allocation_bytes) {
        return error_opencl(code, "clCreateBuffer",
                            "%s of %zu bytes; device \"%s\" gives out at most %llu in one buffer. Keys and values in "
                            "pages may lie in several, by pool_pages",
                            name, bytes, device->name, (unsigned long long)device->allocation_bytes);
    }
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clCreateBuffer", "%s of %zu bytes", name, bytes);
}

/* Elements of `place` count from `low` on, where element place->low is. */
static void count_from(struct tensor_place *place, int64_t low)
{
    const int64_t step = low - place->low;
    place->data = NULL;
    place->offset += step;
    place->low += step;
    place->high += step;
}

/* The buffer on the region that the tensor lies in; its first tensor makes it. */
static clattn_status wrap(struct host_session *session, int id)
{
    const int at = session->regions.of[id];
    const struct host_region *region = &session->regions.region[at];
    const uintptr_t first = (uintptr_t)host_session_first(session, id);
    clattn_status status = CLATTN_OK;
    if (!session->region_buffer[at]) {
        const cl_mem_flags access = region->is_written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
        status = create_buffer(session, operand_name(session->host, id), access | CL_MEM_USE_HOST_PTR,
                               region->end - region->first, (void *)region->first, &session->region_buffer[at]);
    }
    if (status == CLATTN_OK) {
        struct tensor_place *place = &session->device.tensor[id];
        count_from(place, (int64_t)((first - region->first) / operand_bytes(session->host, id)));
        place->buffer = session->region_buffer[at];
    }
    return status;
}

static void count_copied(const struct host_session *session, size_t bytes)
{
    atomic_fetch_add(&session->context->copied, session->is_trial ? 0 : bytes);
}

static clattn_status copy_in(struct host_session *session, int id, enum host_content content)
{
    struct tensor_place *place = &session->device.tensor[id];
    const size_t bytes = host_session_bytes(session, id);
    const cl_mem_flags access = operand_is_written(session->host, id) ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
    const int filled = session->is_trial || (content == HOST_CONTENT_NOW && operand_is_read(session->host, id));
    count_from(place, 0);
    const clattn_status status = create_buffer(session, operand_name(session->host, id),
                                               access | (filled ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                               filled ? host_session_first(session, id) : NULL, &place->buffer);
    if (status == CLATTN_OK && filled) {
        count_copied(session, bytes);
    }
    return status;
}

/* Memory that the driver does not take as it lies (it may want to pin it, or to write to it) is copied. */
static clattn_status place_tensor(struct host_session *session, int id, enum host_content content)
{
    const int region = session->regions.of[id];
    struct error_record before;
    session->device.tensor[id].data = NULL;
    if (region >= 0) {
        error_save(&before);
        const clattn_status status = wrap(session, id);
        if (status == CLATTN_OK || status == CLATTN_OUT_OF_HOST_MEMORY) {
            return status;
        }
        error_restore(&before);
        for (int other = 0; other < session->host->operation->count; ++other) {
            session->regions.of[other] = session->regions.of[other] == region ? -1 : session->regions.of[other];
        }
    }
    return host_session_copies(session, id) ? copy_in(session, id, content) : CLATTN_OK;
}

clattn_status host_session_begin(struct host_session *session, clattn_context *context, cl_command_queue queue,
                                 const struct operands *host, size_t workspace_bytes, enum host_content content)
{
    memset(session, 0, sizeof(*session));
    session->context = context;
    session->queue = queue;
    session->host = host;
    session->device = *host;
    session->device.workspace = NULL;
    session->is_trial = content == HOST_CONTENT_TRIAL;
    clattn_status status = operands_check_outputs_apart(host);
    if (status == CLATTN_OK) {
        status = check_memory(session, workspace_bytes);
    }
    if (status == CLATTN_OK) {
        host_regions_find(&session->regions, host, session->is_trial ? 0 : context->sharing_alignment,
                          context->device.allocation_bytes);
    }
    for (int id = 0; id < host->operation->count && status == CLATTN_OK; ++id) {
        status = place_tensor(session, id, content);
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
    operand_stored_shape(session->host, id, shape);
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
    const int dense = session->is_trial || operand_is_dense(session->host, id);
    const size_t bytes = host_session_bytes(session, id);
    char *target = dense ? host_session_first(session, id) : malloc(bytes);
    if (!target) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory: %zu bytes for %s", bytes,
                         operand_name(session->host, id));
    }
    cl_int code = clEnqueueReadBuffer(session->queue, session->device.tensor[id].buffer, CL_TRUE, 0, bytes, target, 0,
                                      NULL, NULL);
    count_copied(session, code == CL_SUCCESS ? bytes : 0);
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

clattn_status host_session_show(struct host_session *session, int id, cl_event computed, cl_event *shown)
{
    const cl_mem buffer = session->device.tensor[id].buffer;
    const size_t first = (size_t)session->device.tensor[id].low * operand_bytes(session->host, id);
    cl_event mapped;
    cl_int code;
    *shown = NULL;
    if (session->regions.of[id] < 0 || !operand_is_written(session->host, id)) {
        return CLATTN_OK;
    }
    void *at = clEnqueueMapBuffer(session->queue, buffer, CL_FALSE, CL_MAP_READ, first, host_session_bytes(session, id),
                                  1, &computed, &mapped, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clEnqueueMapBuffer", "%s of %zu bytes", operand_name(session->host, id),
                            host_session_bytes(session, id));
    }
    code = clEnqueueUnmapMemObject(session->queue, buffer, at, 1, &mapped, shown);
    if (code != CL_SUCCESS) {
        /* The call has failed, but PoCL never lets go of a buffer that stays mapped: a second attempt, for its sake. */
        clEnqueueUnmapMemObject(session->queue, buffer, at, 1, &mapped, NULL);
    }
    clReleaseEvent(mapped);
    return code == CL_SUCCESS ? CLATTN_OK
                              : error_opencl(code, "clEnqueueUnmapMemObject", "%s", operand_name(session->host, id));
}

/* Copies all outputs back, and waits for the last of it. */
static clattn_status show_and_wait(struct host_session *session, cl_event done)
{
    cl_event last = NULL;
    clattn_status status = CLATTN_OK;
    for (int id = 0; id < session->host->operation->count && status == CLATTN_OK; ++id) {
        cl_event shown;
        status = host_session_show(session, id, done, &shown);
        if (shown) {
            if (last) {
                clReleaseEvent(last);
            }
            last = shown; /* the queue is in-order */
        }
    }
    const cl_event events[2] = { done, last };
    if (status == CLATTN_OK) {
        const cl_int code = clWaitForEvents(last ? 2 : 1, events);
        status = code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clWaitForEvents", "the kernels failed");
    }
    if (last) {
        clReleaseEvent(last);
    }
    return status;
}

clattn_status host_session_finish(struct host_session *session, cl_event done)
{
    clattn_status status = show_and_wait(session, done);
    clReleaseEvent(done);
    for (int id = 0; id < session->host->operation->count && status == CLATTN_OK; ++id) {
        if (operand_is_written(session->host, id) && host_session_copies(session, id)) {
            status = copy_out(session, id);
        }
    }
    return status;
}

void host_session_release(struct host_session *session)
{
    for (int id = 0; id < session->host->operation->count; ++id) {
        if (session->regions.of[id] < 0 && session->device.tensor[id].buffer) {
            clReleaseMemObject(session->device.tensor[id].buffer);
        }
        if (session->region_buffer[id]) {
            clReleaseMemObject(session->region_buffer[id]);
        }
    }
    if (session->device.workspace) {
        clReleaseMemObject(session->device.workspace);
    }
}

void host_session_end(struct host_session *session, clattn_status status)
{
    if (status != CLATTN_OK) {
        clFinish(session->queue);
    }
    host_session_release(session);
}

clattn_status host_session_call(clattn_context *context, cl_command_queue queue, struct operands *operands,
                                size_t workspace_bytes, enum host_content content, host_session_work *enqueue,
                                const void *of)
{
    const struct operands host = *operands;
    struct host_session session;
    cl_event done = NULL;
    const struct enqueue_target target = { queue, 0, NULL, &done };
    clattn_status status = host_session_begin(&session, context, queue, &host, workspace_bytes, content);
    if (status == CLATTN_OK) {
        *operands = session.device;
        status = enqueue(of, &target, operands);
    }
    if (status == CLATTN_OK) {
        status = host_session_finish(&session, done);
    }
    host_session_end(&session, status);
    return status;
}

static clattn_status enqueue_of_plan(const void *of, const struct enqueue_target *target,
                                     const struct operands *operands)
{
    return enqueue_plan(of, target, operands);
}

clattn_status host_session_run(const struct clattn_plan *plan, cl_command_queue queue, struct operands *operands,
                               enum host_content content)
{
    return host_session_call(plan->context, queue, operands, plan->workspace_bytes, content, enqueue_of_plan, plan);
}
