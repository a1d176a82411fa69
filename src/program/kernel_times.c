#include "program/kernel_times.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "program/launch.h"

struct clattn_kernel_times {
    clattn_kernel_times *next; /* of the context's */
    clattn_context *context;
    cl_command_queue queue; /* retained */
    pthread_mutex_t lock;   /* of what follows: calls of several threads may use the queue */
    struct timed_kernel *list;
    size_t count, reserved, room; /* count + reserved <= room */
    uint64_t calls;
};

/* In a forked child nothing of OpenCL may be touched, and locks may be another thread's for ever. */
static int is_forked(const clattn_kernel_times *times)
{
    return !process_mark_is_here(&times->context->maker);
}

/* ---- those of a context ---------------------------------------------------------------------- */

static clattn_status check_profiling(cl_command_queue queue)
{
    cl_command_queue_properties properties = 0;
    const cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof(properties), &properties, NULL);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetCommandQueueInfo", "is `queue` a valid command queue?");
    }
    if (properties & CL_QUEUE_PROFILING_ENABLE) {
        return CLATTN_OK;
    }
    return error_set(CLATTN_INVALID_ARGUMENT, "queue: takes no times; create it with CL_QUEUE_PROFILING_ENABLE "
                                              "(clCreateCommandQueue), and enqueue on that one what is to be timed");
}

static clattn_kernel_times *find(const clattn_context *context, cl_command_queue queue)
{
    clattn_kernel_times *times = context->times;
    while (times && times->queue != queue) {
        times = times->next;
    }
    return times;
}

clattn_kernel_times *kernel_times_of(clattn_context *context, cl_command_queue queue)
{
    if (atomic_load(&context->timed_queues) == 0) { /* as nearly always, and this is each enqueue's way */
        return NULL;
    }
    pthread_mutex_lock(&context->times_lock);
    clattn_kernel_times *times = find(context, queue);
    pthread_mutex_unlock(&context->times_lock);
    return times;
}

/* 0: the queue has some already. */
static int join(clattn_context *context, clattn_kernel_times *times)
{
    pthread_mutex_lock(&context->times_lock);
    const int is_first = !find(context, times->queue);
    if (is_first) {
        times->next = context->times;
        context->times = times;
        atomic_fetch_add(&context->timed_queues, 1);
    }
    pthread_mutex_unlock(&context->times_lock);
    return is_first;
}

static void leave(clattn_kernel_times *times)
{
    pthread_mutex_lock(&times->context->times_lock);
    clattn_kernel_times **at = &times->context->times;
    while (*at && *at != times) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = times->next;
        atomic_fetch_sub(&times->context->timed_queues, 1);
    }
    pthread_mutex_unlock(&times->context->times_lock);
}

clattn_status kernel_times_create(clattn_context *context, cl_command_queue queue, clattn_kernel_times **result)
{
    clattn_status status = chain_check_queue(context, queue);
    if (status == CLATTN_OK) {
        status = check_profiling(queue);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    clattn_kernel_times *times = calloc(1, sizeof(*times));
    if (!times) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the times of kernels");
    }
    const cl_int code = clRetainCommandQueue(queue);
    if (code != CL_SUCCESS) {
        free(times);
        return error_opencl(code, "clRetainCommandQueue", "%s", "");
    }
    times->context = context;
    times->queue = queue;
    pthread_mutex_init(&times->lock, NULL);
    if (!join(context, times)) {
        kernel_times_destroy(times);
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "queue: its kernels are timed already; destroy those clattn_kernel_times first");
    }
    *result = times;
    return CLATTN_OK;
}

void kernel_times_destroy(clattn_kernel_times *times)
{
    if (!is_forked(times)) {
        leave(times);
        kernel_times_clear(times);
        clReleaseCommandQueue(times->queue);
        pthread_mutex_destroy(&times->lock);
    }
    free(times->list);
    free(times);
}

/* ---- adding ---------------------------------------------------------------------------------- */

clattn_status kernel_times_reserve(clattn_kernel_times *times)
{
    clattn_status status = CLATTN_OK;
    pthread_mutex_lock(&times->lock);
    if (times->count + times->reserved == times->room) {
        const size_t room = times->room ? 2 * times->room : 64;
        struct timed_kernel *list = realloc(times->list, room * sizeof(*list));
        times->list = list ? list : times->list;
        times->room = list ? room : times->room;
        status = list ? CLATTN_OK
                      : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the times of %zu kernels", room);
    }
    times->reserved += status == CLATTN_OK;
    pthread_mutex_unlock(&times->lock);
    return status;
}

void kernel_times_cancel(clattn_kernel_times *times)
{
    pthread_mutex_lock(&times->lock);
    --times->reserved;
    pthread_mutex_unlock(&times->lock);
}

void kernel_times_add(clattn_kernel_times *times, const struct timed_kernel *kernel, uint64_t *call)
{
    pthread_mutex_lock(&times->lock);
    *call = *call ? *call : ++times->calls;
    times->list[times->count] = *kernel;
    times->list[times->count++].call = *call - 1;
    --times->reserved;
    pthread_mutex_unlock(&times->lock);
}

clattn_status kernel_times_begin(clattn_kernel_times *times, cl_event *before)
{
    clattn_status status = kernel_times_reserve(times);
    if (status != CLATTN_OK) {
        return status;
    }
    const cl_int code = clEnqueueMarkerWithWaitList(times->queue, 0, NULL, before);
    if (code != CL_SUCCESS) {
        kernel_times_cancel(times);
        *before = NULL;
        status = error_opencl(code, "clEnqueueMarkerWithWaitList", "%s", "");
    }
    return status;
}

void kernel_times_end(clattn_kernel_times *times, const char *name, const char *file, cl_event before, cl_event last,
                      uint64_t *call)
{
    const struct timed_kernel kernel = { .name = name, .file = file, .before = before, .event = last };
    if (before && last) {
        kernel_times_add(times, &kernel, call);
    } else if (before) {
        kernel_times_cancel(times);
        clReleaseEvent(before);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

uint64_t kernel_times_count(clattn_kernel_times *times)
{
    if (is_forked(times)) {
        return 0;
    }
    pthread_mutex_lock(&times->lock);
    const uint64_t count = times->count;
    pthread_mutex_unlock(&times->lock);
    return count;
}

void kernel_times_clear(clattn_kernel_times *times)
{
    if (is_forked(times)) {
        return;
    }
    pthread_mutex_lock(&times->lock);
    for (size_t i = 0; i < times->count; ++i) {
        clReleaseEvent(times->list[i].event);
        if (times->list[i].before) {
            clReleaseEvent(times->list[i].before);
        }
    }
    times->count = 0;
    times->calls = 0;
    pthread_mutex_unlock(&times->lock);
}

static clattn_status read_time(const struct timed_kernel *kernel, cl_event event, cl_profiling_info which,
                               uint64_t *nanoseconds)
{
    cl_ulong value = 0;
    const cl_int code = clGetEventProfilingInfo(event, which, sizeof(value), &value, NULL);
    *nanoseconds = value;
    return code == CL_SUCCESS ? CLATTN_OK
                              : error_opencl(code, "clGetEventProfilingInfo", "the time of kernel %s", kernel->name);
}

static clattn_status read_times(const struct timed_kernel *kernel, clattn_kernel_time *found)
{
    const cl_event first = kernel->before ? kernel->before : kernel->event;
    clattn_status status = read_time(kernel, first, CL_PROFILING_COMMAND_QUEUED, &found->queued_ns);
    if (status == CLATTN_OK) {
        status = read_time(kernel, first, kernel->before ? CL_PROFILING_COMMAND_END : CL_PROFILING_COMMAND_START,
                           &found->started_ns);
    }
    return status == CLATTN_OK ? read_time(kernel, kernel->event, CL_PROFILING_COMMAND_END, &found->ended_ns) : status;
}

clattn_status kernel_times_get(clattn_kernel_times *times, uint64_t index, clattn_kernel_time *found)
{
    struct timed_kernel kernel = { 0 };
    const clattn_status status = context_check(times->context);
    if (status != CLATTN_OK) {
        return status;
    }
    pthread_mutex_lock(&times->lock);
    const size_t count = times->count;
    if (index < count) {
        kernel = times->list[index];
    }
    pthread_mutex_unlock(&times->lock);
    if (index >= count) {
        return error_set(CLATTN_INVALID_ARGUMENT, "index %" PRIu64 ": must be below %zu, the kernels that were timed",
                         index, count);
    }
    cl_int state = CL_QUEUED;
    const cl_int code = clGetEventInfo(kernel.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
    if (code != CL_SUCCESS || state < 0) {
        return error_opencl(code != CL_SUCCESS ? code : state, code != CL_SUCCESS ? "clGetEventInfo" : "a command",
                            "kernel %s", kernel.name);
    }
    found->kernel = kernel.name;
    found->file = kernel.file;
    found->call = kernel.call;
    found->event = kernel.event;
    found->is_done = state == CL_COMPLETE;
    return found->is_done ? read_times(&kernel, found) : CLATTN_OK;
}
