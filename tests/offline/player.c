/* Buffers, launches and events of a driver that plays PTX (player_programs.c) and does all at once, in the call that
 * enqueues it. Platform and device are the null driver's. */
#include <stdlib.h>
#include <string.h>

#include "player.h"
#include "ptx.h"

struct _cl_mem {
    struct _cl_mem *next; /* of all that are no parts */
    unsigned char *data;
    size_t bytes;
    int references, is_part;
};

struct _cl_event {
    int references;
};

static cl_mem buffers;

int ptx_memory_is_there(uint64_t at, size_t bytes)
{
    for (cl_mem b = buffers; b; b = b->next) {
        const uint64_t start = (uint64_t)(uintptr_t)b->data;
        if (at >= start && at + bytes <= start + b->bytes) {
            return 1;
        }
    }
    return 0;
}

static cl_event event_of(void)
{
    cl_event event = calloc(1, sizeof(*event));
    event->references = 1;
    return event;
}

static cl_int done_with(cl_event *done)
{
    if (done) {
        *done = event_of();
    }
    return CL_SUCCESS;
}

cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    cl_mem buffer = calloc(1, sizeof(*buffer));
    (void)context;
    buffer->bytes = size;
    buffer->references = 1;
    buffer->next = buffers;
    buffers = buffer;
    buffer->data = aligned_alloc(1024, (size + 1023) / 1024 * 1024);
    memset(buffer->data, 0xff, size);
    if (flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) {
        memcpy(buffer->data, host, size);
    }
    if (code) {
        *code = CL_SUCCESS;
    }
    return buffer;
}

cl_mem CL_API_CALL clCreateSubBuffer(cl_mem whole, cl_mem_flags flags, cl_buffer_create_type type, const void *region,
                                     cl_int *code)
{
    const cl_buffer_region *part = region;
    cl_mem buffer = calloc(1, sizeof(*buffer));
    (void)flags;
    (void)type;
    *buffer = (struct _cl_mem){ NULL, whole->data + part->origin, part->size, 1, 1 };
    *code = CL_SUCCESS;
    return buffer;
}

cl_int CL_API_CALL clReleaseMemObject(cl_mem buffer)
{
    if (--buffer->references == 0) {
        cl_mem *at = &buffers;
        while (!buffer->is_part && *at != buffer) {
            at = &(*at)->next;
        }
        if (!buffer->is_part) {
            *at = buffer->next;
            free(buffer->data);
        }
        free(buffer);
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL clGetMemObjectInfo(cl_mem buffer, cl_mem_info what, size_t size, void *value, size_t *needed)
{
    const cl_context context = null_driver_context();
    const cl_mem_flags flags = CL_MEM_READ_WRITE;
    return what == CL_MEM_FLAGS     ? null_driver_answer(&flags, sizeof(flags), size, value, needed)
           : what == CL_MEM_CONTEXT ? null_driver_answer(&context, sizeof(context), size, value, needed)
                                    : null_driver_answer(&buffer->bytes, sizeof(buffer->bytes), size, value, needed);
}

cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset,
                                       size_t size, void *to, cl_uint waits, const cl_event *wait, cl_event *done)
{
    (void)queue;
    (void)blocks;
    (void)waits;
    (void)wait;
    memcpy(to, buffer->data + offset, size);
    return done_with(done);
}

cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset,
                                        size_t size, const void *from, cl_uint waits, const cl_event *wait,
                                        cl_event *done)
{
    (void)queue;
    (void)blocks;
    (void)waits;
    (void)wait;
    memcpy(buffer->data + offset, from, size);
    return done_with(done);
}

cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    unsigned char *address = NULL;
    if (player_is_buffer(kernel, index)) {
        const cl_mem buffer = value ? *(const cl_mem *)value : NULL;
        address = buffer ? buffer->data : NULL;
        value = &address;
        size = sizeof(address);
    }
    player_set(kernel, index, value, size);
    return CL_SUCCESS;
}

cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                          const size_t *offset, const size_t *global, const size_t *local,
                                          cl_uint waits, const cl_event *wait, cl_event *done)
{
    size_t groups[3] = { 1, 1, 1 }, items[3] = { 1, 1, 1 };
    (void)queue;
    (void)offset;
    (void)waits;
    (void)wait;
    for (cl_uint axis = 0; axis < dimensions; ++axis) {
        items[axis] = local[axis];
        groups[axis] = global[axis] / local[axis];
    }
    player_run(kernel, groups, items);
    return done_with(done);
}

cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint waits, const cl_event *wait,
                                               cl_event *done)
{
    (void)queue;
    (void)waits;
    (void)wait;
    return done_with(done);
}

cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint waits, const cl_event *wait,
                                                cl_event *done)
{
    return clEnqueueMarkerWithWaitList(queue, waits, wait, done);
}

cl_int CL_API_CALL clRetainCommandQueue(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

/* ---- events, all of them complete ---------------------------------------------------------------- */

cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event *events)
{
    (void)count;
    (void)events;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clRetainEvent(cl_event event)
{
    ++event->references;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clReleaseEvent(cl_event event)
{
    if (--event->references == 0) {
        free(event);
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info what, size_t size, void *value, size_t *needed)
{
    const cl_int complete = CL_COMPLETE;
    const cl_command_queue queue = null_driver_queue();
    const cl_context context = null_driver_context();
    (void)event;
    return what == CL_EVENT_COMMAND_QUEUE ? null_driver_answer(&queue, sizeof(queue), size, value, needed)
           : what == CL_EVENT_CONTEXT     ? null_driver_answer(&context, sizeof(context), size, value, needed)
                                          : null_driver_answer(&complete, sizeof(complete), size, value, needed);
}

cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size, void *value,
                                           size_t *needed)
{
    const cl_ulong ns = what == CL_PROFILING_COMMAND_END ? 1000 : 0;
    (void)event;
    return null_driver_answer(&ns, sizeof(ns), size, value, needed);
}
