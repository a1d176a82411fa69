/* Setting arguments, enqueueing, and the events between one call's commands. */
#include "program/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/rehearsal.h"

clattn_status chain_check_queue(const clattn_context *context, cl_command_queue queue)
{
    cl_context cl = NULL;
    cl_device_id device = NULL;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl), &cl, NULL);
    if (code == CL_SUCCESS) {
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    }
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetCommandQueueInfo", "is `queue` a valid command queue?");
    }
    if (cl != context->cl || device != context->device.id) {
        return error_set(CLATTN_INVALID_ARGUMENT, "queue: must be of the clattn context's %s (%s)",
                         cl != context->cl ? "cl_context" : "device", context->device.name);
    }
    return CLATTN_OK;
}

clattn_status chain_check_buffer(const clattn_context *context, cl_mem buffer, const char *name, size_t *bytes)
{
    cl_context cl = NULL;
    cl_int code = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(*bytes), bytes, NULL);
    if (code == CL_SUCCESS) {
        code = clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(cl), &cl, NULL);
    }
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetMemObjectInfo", "%s: is it a valid cl_mem?", name);
    }
    if (cl != context->cl) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s: must be a buffer of the clattn context's cl_context", name);
    }
    return CLATTN_OK;
}

clattn_status chain_check_access(cl_mem buffer, const char *name, int is_read, int is_written)
{
    cl_mem_flags flags = 0;
    cl_int code = clGetMemObjectInfo(buffer, CL_MEM_FLAGS, sizeof(flags), &flags, NULL);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetMemObjectInfo", "%s: is it a valid cl_mem?", name);
    }
    if ((is_written && flags & CL_MEM_READ_ONLY) || (is_read && flags & CL_MEM_WRITE_ONLY)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s: must not be a buffer of CL_MEM_%s_ONLY, kernels %s it", name,
                         flags & CL_MEM_READ_ONLY ? "READ" : "WRITE", flags & CL_MEM_READ_ONLY ? "write" : "read");
    }
    return CLATTN_OK;
}

clattn_status chain_check_wait(cl_uint n_wait, const cl_event *wait)
{
    if ((n_wait == 0) != (wait == NULL)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "n_wait %u: must be 0 exactly when wait is NULL, which it is%s",
                         n_wait, wait ? " not" : "");
    }
    for (cl_uint i = 0; i < n_wait; ++i) {
        if (!wait[i]) { /* some drivers pass over it */
            return error_set(CLATTN_INVALID_ARGUMENT, "wait[%u]: must not be NULL; n_wait is %u", i, n_wait);
        }
        /* What waits for it is never run, and with some drivers (PoCL) never ends. */
        cl_int state = CL_QUEUED;
        cl_int code = clGetEventInfo(wait[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
        if (code == CL_SUCCESS && state < 0) {
            return error_set(CLATTN_INVALID_ARGUMENT, "wait[%u]: what it stands for failed, with %s (%d)", i,
                             error_opencl_name(state), state);
        }
    }
    return CLATTN_OK;
}

clattn_status chain_begin(struct chain *chain, cl_command_queue queue, cl_uint n_wait, const cl_event *wait,
                          cl_event *done)
{
    const clattn_status status = chain_check_wait(n_wait, wait);
    memset(chain, 0, sizeof(*chain));
    if (status != CLATTN_OK) {
        return status;
    }
    cl_command_queue_properties properties;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof(properties), &properties, NULL);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetCommandQueueInfo", "is `queue` a valid command queue?");
    }
    chain->queue = queue;
    chain->in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    chain->n_wait = n_wait;
    chain->wait = wait;
    chain->done = done;
    return CLATTN_OK;
}

void chain_final(struct chain *chain)
{
    chain->next_is_final = !chain->more_follows;
}

/* The events that the next command waits for. */
static cl_uint wait_count(const struct chain *chain)
{
    return chain->last ? 1 : chain->n_wait;
}

static const cl_event *wait_list(const struct chain *chain)
{
    return chain->last ? &chain->last : chain->wait;
}

/* The waits are behind a command now; `event` is that command's, or NULL on an in-order queue. */
static void advance(struct chain *chain, cl_event event)
{
    if (chain->last) {
        clReleaseEvent(chain->last);
    }
    chain->last = event;
    chain->n_wait = 0;
    chain->wait = NULL;
}

clattn_status chain_flush_waits(struct chain *chain)
{
    if (wait_count(chain) == 0) {
        return CLATTN_OK;
    }
    cl_int code = clEnqueueBarrierWithWaitList(chain->queue, wait_count(chain), wait_list(chain), NULL);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clEnqueueBarrierWithWaitList", "%s", "are the wait events valid?");
    }
    advance(chain, NULL);
    return CLATTN_OK;
}

clattn_status chain_end(struct chain *chain, clattn_status status)
{
    if (status == CLATTN_OK && chain->done && !chain->has_done) {
        cl_int code = clEnqueueMarkerWithWaitList(chain->queue, wait_count(chain), wait_list(chain), chain->done);
        if (code != CL_SUCCESS) {
            status = error_opencl(code, "clEnqueueMarkerWithWaitList", "%s", "");
        }
    }
    if (status != CLATTN_OK && chain->has_done) {
        clReleaseEvent(*chain->done);
        *chain->done = NULL;
    }
    if (chain->last) {
        clReleaseEvent(chain->last);
        chain->last = NULL;
    }
    return status;
}

/* Whether the argument is a NULL buffer; local memory, whose value is NULL itself, is none. */
static int is_absent(const struct launch_argument *argument)
{
    cl_mem buffer = NULL;
    if (!argument->value || argument->bytes != sizeof(buffer)) {
        return 0;
    }
    memcpy(&buffer, argument->value, sizeof(buffer));
    return !buffer;
}

/* A struct of parameters is larger than any scalar or vector. */
#define PARAMS_LEAST 192

static int is_params(const struct launch_argument *argument)
{
    return argument->value && argument->bytes >= PARAMS_LEAST;
}

/* The bit of an argument in taken_kernel's `absent`; none from argument 64 on. */
static uint64_t absent_bit(size_t at)
{
    return at < 64 ? 1ull << at : 0;
}

/* Whether the kernel has argument `at` from a call before. A buffer it has not: one of the same address may be another
 * by now. */
static int has_argument(const struct taken_kernel *kernel, size_t at, const struct launch_argument *argument)
{
    if (is_params(argument)) {
        return kernel->params_bytes == argument->bytes && kernel->params_at == at &&
               memcmp(kernel->params, argument->value, argument->bytes) == 0;
    }
    return kernel->absent & absent_bit(at) && is_absent(argument);
}

/* Before it is set, so that an argument which could not be set is not thought to be there. */
static void forget_argument(struct taken_kernel *kernel, size_t at, const struct launch_argument *argument)
{
    kernel->params_bytes = is_params(argument) ? 0 : kernel->params_bytes;
    kernel->absent &= ~absent_bit(at);
}

static void keep_argument(struct taken_kernel *kernel, size_t at, const struct launch_argument *argument)
{
    if (is_params(argument)) {
        void *params = realloc(kernel->params, argument->bytes);
        if (params) { /* else it is set in each call */
            memcpy(params, argument->value, argument->bytes);
            kernel->params = params;
            kernel->params_bytes = argument->bytes;
            kernel->params_at = at;
        }
    } else if (is_absent(argument)) {
        kernel->absent |= absent_bit(at);
    }
}

/* A cl_kernel keeps its arguments: tensors that are absent from most calls, and parameters that are those of the call
 * before, are not set again. */
static clattn_status set_arguments(struct taken_kernel *kernel, const char *name, size_t count,
                                   const struct launch_argument *arguments)
{
    for (size_t i = 0; i < count; ++i) {
        if (has_argument(kernel, i, &arguments[i])) {
            continue;
        }
        forget_argument(kernel, i, &arguments[i]);
        cl_int code = clSetKernelArg(kernel->cl, (cl_uint)i, arguments[i].bytes, arguments[i].value);
        if (code != CL_SUCCESS) {
            return error_opencl(code, "clSetKernelArg", "argument %zu of kernel %s", i, name);
        }
        keep_argument(kernel, i, &arguments[i]);
    }
    return CLATTN_OK;
}

static clattn_status enqueue(struct chain *chain, cl_kernel kernel, const char *name, cl_uint dims,
                             const size_t *global, const size_t *local, cl_event *event)
{
    cl_int code = clEnqueueNDRangeKernel(chain->queue, kernel, dims, NULL, global, local, wait_count(chain),
                                         wait_list(chain), event);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clEnqueueNDRangeKernel", "kernel %s, global %zu x %zu x %zu, local %zu x %zu x %zu",
                            name, global[0], dims > 1 ? global[1] : 1, dims > 2 ? global[2] : 1, local[0],
                            dims > 1 ? local[1] : 1, dims > 2 ? local[2] : 1);
    }
    return CLATTN_OK;
}

/* The queue's times get the kernel's event, and what else keeps it one of its own. */
static clattn_status add_time(struct chain *chain, const struct kernel *kernel, cl_event event, int is_kept)
{
    const struct timed_kernel timed = { .name = kernel_name(kernel), .file = kernel_file(kernel), .event = event };
    const cl_int code = is_kept ? clRetainEvent(event) : CL_SUCCESS;
    if (code != CL_SUCCESS) {
        kernel_times_cancel(chain->times);
        clReleaseEvent(event);
        return error_opencl(code, "clRetainEvent", "of kernel %s", timed.name);
    }
    kernel_times_add(chain->times, &timed, &chain->timed_call);
    return CLATTN_OK;
}

static clattn_status enqueue_timed(struct chain *chain, const struct kernel *kernel, cl_kernel taken, cl_uint dims,
                                   const size_t *global, const size_t *local, cl_event *kept)
{
    cl_event event = NULL;
    clattn_status status = kernel_times_reserve(chain->times);
    if (status != CLATTN_OK) {
        return status;
    }
    status = enqueue(chain, taken, kernel_name(kernel), dims, global, local, &event);
    if (status != CLATTN_OK) {
        kernel_times_cancel(chain->times);
        return status;
    }
    status = add_time(chain, kernel, event, kept != NULL);
    if (kept) {
        *kept = status == CLATTN_OK ? event : NULL;
    }
    return status;
}

/* The kernel's event is the caller's, or what the command after it waits for. */
static clattn_status enqueue_next(struct chain *chain, const struct kernel *kernel, cl_kernel taken, cl_uint dims,
                                  const size_t *global, const size_t *local)
{
    const int is_final = chain->next_is_final && chain->done;
    cl_event event = NULL, *kept = is_final ? chain->done : chain->in_order ? NULL : &event;
    const clattn_status status = chain->times ? enqueue_timed(chain, kernel, taken, dims, global, local, kept)
                                              : enqueue(chain, taken, kernel_name(kernel), dims, global, local, kept);
    if (status == CLATTN_OK) {
        chain->has_done = is_final;
        advance(chain, event);
    }
    return status;
}

clattn_status launch_kernel(struct chain *chain, struct kernel *kernel, cl_uint dims, const size_t *global,
                            const size_t *local, size_t n_arguments, const struct launch_argument *arguments)
{
    struct taken_kernel taken;
    clattn_status status = kernel_take(kernel, &taken);
    if (status != CLATTN_OK) {
        return status;
    }
    status = set_arguments(&taken, kernel_name(kernel), n_arguments, arguments);
    if (status == CLATTN_OK) {
        status = enqueue_next(chain, kernel, taken.cl, dims, global, local);
    }
    kernel_put(kernel, &taken);
    return status;
}

clattn_status launch(struct chain *chain, struct kernel *kernel, cl_uint dims, const size_t *global,
                     const size_t *local, size_t n_arguments, const struct launch_argument *arguments)
{
    clattn_status status = CLATTN_OK;
    int is_empty = 0;
    for (cl_uint i = 0; i < dims; ++i) {
        is_empty |= global[i] == 0;
    }
    if (!is_empty) {
        status = (chain->rehearses ? rehearsal_launch : launch_kernel)(chain, kernel, dims, global, local, n_arguments,
                                                                       arguments);
    }
    chain->next_is_final = 0;
    return status;
}

/* ---- launches of parts ---------------------------------------------------------------------- */

static int64_t share(int64_t count, double at_once)
{
    return at_once >= (double)count ? count : at_once < 1 ? 1 : (int64_t)at_once;
}

int64_t launch_planes(int64_t planes, double at_once)
{
    const int64_t step = share(planes, at_once);
    return step < LAUNCH_GROUPS_MOST ? step : LAUNCH_GROUPS_MOST;
}

struct launch_part launch_parts(int64_t items, int64_t planes, double at_once)
{
    return (struct launch_part){ .items = items,
                                 .item_step = share(items, at_once),
                                 .all_planes = planes,
                                 .plane_step = launch_planes(planes, at_once / (double)items) };
}

int launch_next(struct launch_part *part)
{
    part->first += part->count;
    if (part->first >= part->items) {
        part->first = 0;
        part->first_plane += part->planes;
    }
    const int64_t items = part->items - part->first, planes = part->all_planes - part->first_plane;
    if (items <= 0 || planes <= 0) {
        return 0;
    }
    part->count = items < part->item_step ? items : part->item_step;
    part->planes = planes < part->plane_step ? planes : part->plane_step;
    part->is_last = part->count == items && part->planes == planes;
    return 1;
}
