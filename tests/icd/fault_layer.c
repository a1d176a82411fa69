/* An OpenCL layer that fails the n-th call and counts the references that its program holds. Loaded by
 * OPENCL_LAYERS, driven by tests/robust/faults through the symbol fault_layer.
 *
 *     program  ->  ICD loader  ->  this layer  ->  driver
 *
 * Each function that the library or CLBlast calls has one line below. Any other call ends the program:
 * a new function must be added here before it can be said to fail cleanly. Releases are counted and never
 * failed: nothing can be done about a release that fails. */
#define CL_TARGET_OPENCL_VERSION 300
#include "fault_layer.h"

#include <CL/cl_layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) struct fault_layer fault_layer;

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

static int fails(const char *name)
{
    long number = atomic_fetch_add(&fault_layer.calls, 1) + 1;
    if (number != atomic_load(&fault_layer.fail_at) && number != atomic_load(&fault_layer.fail_also_at)) {
        return 0;
    }
    atomic_store(&fault_layer.failed, name);
    return 1;
}

static void count(enum fault_kind kind, int change)
{
    atomic_fetch_add(&fault_layer.live[kind], change);
}

/* A call that returns its code. */
#define INT_CALL(name, code, parameters, arguments)                                                                    \
    static cl_int CL_API_CALL own_##name parameters                                                                    \
    {                                                                                                                  \
        return fails(#name) ? (code) : next->name arguments;                                                           \
    }

/* A call that returns when commands are done. */
#define WAITING_CALL(name, code, parameters, arguments)                                                                \
    static cl_int CL_API_CALL own_##name parameters                                                                    \
    {                                                                                                                  \
        if (fails(#name)) {                                                                                            \
            return (code);                                                                                             \
        }                                                                                                              \
        atomic_store(&fault_layer.launched, 0);                                                                        \
        return next->name arguments;                                                                                   \
    }

/* A call that makes an object; its last parameter is cl_int *error. */
#define OBJECT_CALL(type, kind, name, code, parameters, arguments)                                                     \
    static type CL_API_CALL own_##name parameters                                                                      \
    {                                                                                                                  \
        if (fails(#name)) {                                                                                            \
            if (error) {                                                                                               \
                *error = (code);                                                                                       \
            }                                                                                                          \
            return NULL;                                                                                               \
        }                                                                                                              \
        type made = next->name arguments;                                                                              \
        count(kind, made != NULL);                                                                                     \
        return made;                                                                                                   \
    }

/* A command, which may wait for itself and all before it; its last parameter is cl_event *event. */
#define COMMAND_CALL(name, waits, parameters, arguments)                                                               \
    static cl_int CL_API_CALL own_##name parameters                                                                    \
    {                                                                                                                  \
        if (fails(#name)) {                                                                                            \
            return CL_OUT_OF_RESOURCES;                                                                                \
        }                                                                                                              \
        cl_int code = next->name arguments;                                                                            \
        count(FAULT_EVENT, code == CL_SUCCESS && event);                                                               \
        atomic_store(&fault_layer.launched, (waits) ? 0 : atomic_load(&fault_layer.launched) + (code == CL_SUCCESS));  \
        return code;                                                                                                   \
    }

#define REFERENCE_CALLS(type, kind, what)                                                                              \
    static cl_int CL_API_CALL own_clRetain##what(type object)                                                          \
    {                                                                                                                  \
        if (fails("clRetain" #what)) {                                                                                 \
            return CL_OUT_OF_HOST_MEMORY;                                                                              \
        }                                                                                                              \
        cl_int code = next->clRetain##what(object);                                                                    \
        count(kind, code == CL_SUCCESS);                                                                               \
        return code;                                                                                                   \
    }                                                                                                                  \
    static cl_int CL_API_CALL own_clRelease##what(type object)                                                         \
    {                                                                                                                  \
        const int early = (kind) == FAULT_MEMORY && atomic_load(&fault_layer.launched) > 0;                            \
        cl_int code = next->clRelease##what(object);                                                                   \
        atomic_fetch_add(&fault_layer.released_early, early);                                                          \
        count(kind, code == CL_SUCCESS ? -1 : 0);                                                                      \
        return code;                                                                                                   \
    }

#define INFO_CALL(name, type, what)                                                                                    \
    INT_CALL(name, CL_OUT_OF_HOST_MEMORY, (type object, what w, size_t n, void *value, size_t *size),                  \
             (object, w, n, value, size))

REFERENCE_CALLS(cl_context, FAULT_CONTEXT, Context)
REFERENCE_CALLS(cl_command_queue, FAULT_QUEUE, CommandQueue)
REFERENCE_CALLS(cl_mem, FAULT_MEMORY, MemObject)
REFERENCE_CALLS(cl_program, FAULT_PROGRAM, Program)
REFERENCE_CALLS(cl_kernel, FAULT_KERNEL, Kernel)
REFERENCE_CALLS(cl_event, FAULT_EVENT, Event)

INFO_CALL(clGetPlatformInfo, cl_platform_id, cl_platform_info)
INFO_CALL(clGetDeviceInfo, cl_device_id, cl_device_info)
INFO_CALL(clGetContextInfo, cl_context, cl_context_info)
INFO_CALL(clGetCommandQueueInfo, cl_command_queue, cl_command_queue_info)
INFO_CALL(clGetMemObjectInfo, cl_mem, cl_mem_info)
INFO_CALL(clGetProgramInfo, cl_program, cl_program_info)
INFO_CALL(clGetKernelInfo, cl_kernel, cl_kernel_info)
INFO_CALL(clGetEventInfo, cl_event, cl_event_info)
INT_CALL(clGetPlatformIDs, CL_OUT_OF_HOST_MEMORY, (cl_uint n, cl_platform_id *ids, cl_uint *all), (n, ids, all))
INT_CALL(clGetDeviceIDs, CL_OUT_OF_RESOURCES,
         (cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *ids, cl_uint *all), (p, t, n, ids, all))
INT_CALL(clGetProgramBuildInfo, CL_OUT_OF_HOST_MEMORY,
         (cl_program p, cl_device_id d, cl_program_build_info w, size_t n, void *value, size_t *size),
         (p, d, w, n, value, size))
INT_CALL(clGetKernelWorkGroupInfo, CL_OUT_OF_HOST_MEMORY,
         (cl_kernel k, cl_device_id d, cl_kernel_work_group_info w, size_t n, void *value, size_t *size),
         (k, d, w, n, value, size))
INT_CALL(clBuildProgram, CL_BUILD_PROGRAM_FAILURE,
         (cl_program p, cl_uint n, const cl_device_id *d, const char *options,
          void(CL_CALLBACK *notify)(cl_program, void *), void *data),
         (p, n, d, options, notify, data))
INT_CALL(clSetKernelArg, CL_OUT_OF_RESOURCES, (cl_kernel k, cl_uint i, size_t n, const void *value), (k, i, n, value))
INT_CALL(clFlush, CL_OUT_OF_RESOURCES, (cl_command_queue q), (q))
WAITING_CALL(clFinish, CL_OUT_OF_RESOURCES, (cl_command_queue q), (q))
WAITING_CALL(clWaitForEvents, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, (cl_uint n, const cl_event *e), (n, e))
INT_CALL(clSetUserEventStatus, CL_OUT_OF_RESOURCES, (cl_event e, cl_int status), (e, status))

OBJECT_CALL(cl_context, FAULT_CONTEXT, clCreateContext, CL_OUT_OF_RESOURCES,
            (const cl_context_properties *p, cl_uint n, const cl_device_id *d,
             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *error),
            (p, n, d, notify, data, error))
OBJECT_CALL(cl_command_queue, FAULT_QUEUE, clCreateCommandQueue, CL_OUT_OF_RESOURCES,
            (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *error), (c, d, p, error))
OBJECT_CALL(cl_mem, FAULT_MEMORY, clCreateBuffer, CL_MEM_OBJECT_ALLOCATION_FAILURE,
            (cl_context c, cl_mem_flags f, size_t n, void *host, cl_int *error), (c, f, n, host, error))
OBJECT_CALL(cl_mem, FAULT_MEMORY, clCreateSubBuffer, CL_MEM_OBJECT_ALLOCATION_FAILURE,
            (cl_mem m, cl_mem_flags f, cl_buffer_create_type t, const void *info, cl_int *error),
            (m, f, t, info, error))
OBJECT_CALL(cl_program, FAULT_PROGRAM, clCreateProgramWithSource, CL_OUT_OF_HOST_MEMORY,
            (cl_context c, cl_uint n, const char **text, const size_t *size, cl_int *error), (c, n, text, size, error))
OBJECT_CALL(cl_program, FAULT_PROGRAM, clCreateProgramWithBinary, CL_OUT_OF_HOST_MEMORY,
            (cl_context c, cl_uint n, const cl_device_id *d, const size_t *size, const unsigned char **binary,
             cl_int *state, cl_int *error),
            (c, n, d, size, binary, state, error))
OBJECT_CALL(cl_kernel, FAULT_KERNEL, clCreateKernel, CL_OUT_OF_HOST_MEMORY,
            (cl_program p, const char *name, cl_int *error), (p, name, error))
OBJECT_CALL(cl_event, FAULT_EVENT, clCreateUserEvent, CL_OUT_OF_HOST_MEMORY, (cl_context c, cl_int *error), (c, error))

COMMAND_CALL(clEnqueueWriteBuffer, blocks,
             (cl_command_queue q, cl_mem m, cl_bool blocks, size_t at, size_t size, const void *from, cl_uint n,
              const cl_event *wait, cl_event *event),
             (q, m, blocks, at, size, from, n, wait, event))
COMMAND_CALL(clEnqueueCopyBuffer, 0,
             (cl_command_queue q, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t size, cl_uint n,
              const cl_event *wait, cl_event *event),
             (q, from, to, from_at, to_at, size, n, wait, event))
COMMAND_CALL(clEnqueueFillBuffer, 0,
             (cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t at, size_t size, cl_uint n,
              const cl_event *wait, cl_event *event),
             (q, m, pattern, pattern_size, at, size, n, wait, event))
COMMAND_CALL(clEnqueueMarkerWithWaitList, 0, (cl_command_queue q, cl_uint n, const cl_event *wait, cl_event *event),
             (q, n, wait, event))
COMMAND_CALL(clEnqueueBarrierWithWaitList, 0, (cl_command_queue q, cl_uint n, const cl_event *wait, cl_event *event),
             (q, n, wait, event))

COMMAND_CALL(clEnqueueUnmapMemObject, 0,
             (cl_command_queue q, cl_mem m, void *mapped, cl_uint n, const cl_event *wait, cl_event *event),
             (q, m, mapped, n, wait, event))

/* ---- launches: the ladder measures by some (src/plan/ladder.c), dozens of times ---- */

static _Thread_local cl_ulong skipped_ns; /* that the last launch would have taken, until that is told; 0: it ran */

static cl_ulong ns_of(cl_kernel kernel)
{
    char name[64] = "";
    if (!atomic_load(&fault_layer.skips_measured) ||
        next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(name), name, NULL) != CL_SUCCESS) {
        return 0;
    }
    return strcmp(name, "probe_speed") == 0 ? 1000 : strcmp(name, "probe_rival") == 0 ? 10000 : 0;
}

/* An event that is over, in place of the launch's: the device need not wake. */
static cl_int skip(cl_command_queue q, cl_event *event)
{
    cl_context context;
    cl_int code = next->clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL);
    if (code == CL_SUCCESS && event) {
        *event = next->clCreateUserEvent(context, &code);
        code = code == CL_SUCCESS ? next->clSetUserEventStatus(*event, CL_COMPLETE) : code;
    }
    return code;
}

static cl_int launch(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset, const size_t *global,
                     const size_t *local, cl_uint n, const cl_event *wait, cl_event *event)
{
    skipped_ns = ns_of(k);
    return skipped_ns ? skip(q, event)
                      : next->clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n, wait, event);
}

static cl_int CL_API_CALL own_clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dims,
                                                     const size_t *offset, const size_t *global, const size_t *local,
                                                     cl_uint n, const cl_event *wait, cl_event *event)
{
    if (fails("clEnqueueNDRangeKernel")) {
        return CL_OUT_OF_RESOURCES;
    }
    const cl_int code = launch(q, k, dims, offset, global, local, n, wait, event);
    count(FAULT_EVENT, code == CL_SUCCESS && event);
    atomic_fetch_add(&fault_layer.launched, code == CL_SUCCESS);
    return code;
}

static cl_int CL_API_CALL own_clGetEventProfilingInfo(cl_event e, cl_profiling_info what, size_t n, void *value,
                                                      size_t *size)
{
    if (fails("clGetEventProfilingInfo")) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (skipped_ns) {
        const cl_ulong ns = what == CL_PROFILING_COMMAND_END ? skipped_ns : 0;
        memcpy(value, &ns, sizeof(ns));
        skipped_ns = ns ? 0 : skipped_ns;
        return CL_SUCCESS;
    }
    return next->clGetEventProfilingInfo(e, what, n, value, size);
}

/* Nothing is read of what a skipped launch would have written. */
static cl_int read_buffer(cl_command_queue q, cl_mem m, cl_bool blocks, size_t at, size_t size, void *to, cl_uint n,
                          const cl_event *wait, cl_event *event)
{
    return skipped_ns && blocks && !event ? CL_SUCCESS
                                          : next->clEnqueueReadBuffer(q, m, blocks, at, size, to, n, wait, event);
}

static cl_int CL_API_CALL own_clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool blocks, size_t at, size_t size,
                                                  void *to, cl_uint n, const cl_event *wait, cl_event *event)
{
    if (fails("clEnqueueReadBuffer")) {
        return CL_OUT_OF_RESOURCES;
    }
    const cl_int code = read_buffer(q, m, blocks, at, size, to, n, wait, event);
    count(FAULT_EVENT, code == CL_SUCCESS && event);
    atomic_store(&fault_layer.launched, blocks ? 0 : atomic_load(&fault_layer.launched) + (code == CL_SUCCESS));
    return code;
}

/* A command that returns the memory. */
static void *CL_API_CALL own_clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool blocks, cl_map_flags flags,
                                                size_t at, size_t size, cl_uint n, const cl_event *wait,
                                                cl_event *event, cl_int *error)
{
    if (fails("clEnqueueMapBuffer")) {
        if (error) {
            *error = CL_MAP_FAILURE;
        }
        return NULL;
    }
    void *memory = next->clEnqueueMapBuffer(q, m, blocks, flags, at, size, n, wait, event, error);
    count(FAULT_EVENT, memory && event);
    return memory;
}

/* Stands for every call without a line here. */
static void unknown_call(void)
{
    fprintf(stderr, "fault_layer: an OpenCL function was called that tests/icd/fault_layer.c does not "
                    "know: add a line for it\n");
    abort();
}

static void fill_table(void)
{
    void (*entries[sizeof(own) / sizeof(void (*)(void))])(void);
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); ++i) {
        entries[i] = unknown_call;
    }
    memcpy(&own, entries, sizeof(own));
#define TAKE(name) own.name = own_##name
#define TAKE_REFERENCES(what)                                                                                          \
    TAKE(clRetain##what);                                                                                              \
    TAKE(clRelease##what)
    TAKE_REFERENCES(Context);
    TAKE_REFERENCES(CommandQueue);
    TAKE_REFERENCES(MemObject);
    TAKE_REFERENCES(Program);
    TAKE_REFERENCES(Kernel);
    TAKE_REFERENCES(Event);
    TAKE(clGetPlatformIDs);
    TAKE(clGetDeviceIDs);
    TAKE(clGetPlatformInfo);
    TAKE(clGetDeviceInfo);
    TAKE(clGetContextInfo);
    TAKE(clGetCommandQueueInfo);
    TAKE(clGetMemObjectInfo);
    TAKE(clGetProgramInfo);
    TAKE(clGetProgramBuildInfo);
    TAKE(clGetKernelInfo);
    TAKE(clGetKernelWorkGroupInfo);
    TAKE(clGetEventInfo);
    TAKE(clGetEventProfilingInfo);
    TAKE(clBuildProgram);
    TAKE(clSetKernelArg);
    TAKE(clFlush);
    TAKE(clFinish);
    TAKE(clWaitForEvents);
    TAKE(clSetUserEventStatus);
    TAKE(clCreateContext);
    TAKE(clCreateCommandQueue);
    TAKE(clCreateBuffer);
    TAKE(clCreateSubBuffer);
    TAKE(clCreateProgramWithSource);
    TAKE(clCreateProgramWithBinary);
    TAKE(clCreateKernel);
    TAKE(clCreateUserEvent);
    TAKE(clEnqueueNDRangeKernel);
    TAKE(clEnqueueReadBuffer);
    TAKE(clEnqueueWriteBuffer);
    TAKE(clEnqueueCopyBuffer);
    TAKE(clEnqueueFillBuffer);
    TAKE(clEnqueueMarkerWithWaitList);
    TAKE(clEnqueueBarrierWithWaitList);
    TAKE(clEnqueueMapBuffer);
    TAKE(clEnqueueUnmapMemObject);
}

#define LAYER_CALLS(table) fill_table()
#include "icd_entry.h"
