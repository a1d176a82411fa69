/* An OpenCL layer that makes any device a smaller one, and holds the program to it:
 *
 *     SMALL_LOCAL_BYTES=N    so much local memory; a kernel that has more is not enqueued
 *     SMALL_BUFFER_BYTES=N   so much memory at once; no larger buffer is made
 *     SMALL_NO_FP64=1        no float64; the word `double` in a kernel does not compile
 *     SMALL_OPENCL_12=1      OpenCL 1.2, embedded profile: programs are built for it, and later calls end the process
 *
 * Loaded by OPENCL_LAYERS; tests/runtimes/run has the devices that are made with it. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

/* ---- what it answers ------------------------------------------------------------------------ */

/* 0: not set. */
static cl_ulong limit_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : 0;
}

static cl_ulong local_bytes_limit(void)
{
    return limit_of("SMALL_LOCAL_BYTES");
}

static cl_ulong buffer_bytes_limit(void)
{
    return limit_of("SMALL_BUFFER_BYTES");
}

static int hides_fp64(void)
{
    return getenv("SMALL_NO_FP64") != NULL;
}

static int is_opencl_12(void)
{
    return getenv("SMALL_OPENCL_12") != NULL;
}

/* What a device of OpenCL 1.2, embedded profile, calls itself; NULL: it is no text of that kind. */
static const char *opencl_12_text(cl_device_info what)
{
    switch (what) {
    case CL_DEVICE_PROFILE:
        return "EMBEDDED_PROFILE";
    case CL_DEVICE_VERSION:
        return "OpenCL 1.2 small_layer";
    case CL_DEVICE_OPENCL_C_VERSION:
        return "OpenCL C 1.2 small_layer";
    default:
        return NULL;
    }
}

static cl_int answer_text(const char *text, size_t size, void *value, size_t *needed)
{
    const size_t bytes = strlen(text) + 1;
    if (value && size < bytes) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, text, bytes);
    }
    if (needed) {
        *needed = bytes;
    }
    return CL_SUCCESS;
}

static void blank_word(char *words, const char *word)
{
    char *at = strstr(words, word);
    if (at) {
        memset(at, ' ', strlen(word));
    }
}

static void make_smaller(cl_device_info what, void *value)
{
    cl_ulong *number = value;
    if (what == CL_DEVICE_LOCAL_MEM_SIZE && local_bytes_limit() > 0 && *number > local_bytes_limit()) {
        *number = local_bytes_limit();
    }
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && buffer_bytes_limit() > 0 && *number > buffer_bytes_limit()) {
        *number = buffer_bytes_limit();
    }
    if (what == CL_DEVICE_DOUBLE_FP_CONFIG && hides_fp64()) {
        *number = 0;
    }
    if (what == CL_DEVICE_EXTENSIONS && hides_fp64()) {
        blank_word(value, "cl_khr_fp64");
    }
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t size, void *value,
                                          size_t *needed)
{
    if (is_opencl_12() && opencl_12_text(what)) {
        return answer_text(opencl_12_text(what), size, value, needed);
    }
    cl_int code = next->clGetDeviceInfo(device, what, size, value, needed);
    if (code == CL_SUCCESS && value) {
        make_smaller(what, value);
    }
    return code;
}

/* ---- what it forbids ------------------------------------------------------------------------ */

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error)
{
    if (buffer_bytes_limit() == 0 || bytes <= buffer_bytes_limit()) {
        return next->clCreateBuffer(context, flags, bytes, host, error);
    }
    if (error) {
        *error = CL_INVALID_BUFFER_SIZE;
    }
    return NULL;
}

static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count, const char **text,
                                                 const size_t *sizes, cl_int *error)
{
    static const char no_double[] = "#define double double_is_not_here\n#line 1\n";
    const char *texts[17] = { no_double };
    size_t lengths[17] = { 0 }; /* 0: it ends with its 0 */
    if (!hides_fp64() || count > 16) {
        return next->clCreateProgramWithSource(context, count, text, sizes, error);
    }
    for (cl_uint i = 0; i < count; ++i) {
        texts[i + 1] = text[i];
        lengths[i + 1] = sizes ? sizes[i] : 0;
    }
    return next->clCreateProgramWithSource(context, count + 1, texts, lengths, error);
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    if (is_opencl_12() && !(options && strstr(options, "-cl-std=CL1."))) {
        fprintf(stderr, "small_layer: a program that is not built for OpenCL C 1.2\n");
        return CL_INVALID_BUILD_OPTIONS;
    }
    return next->clBuildProgram(program, count, devices, options, notify, user);
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                         const size_t *offset, const size_t *global, const size_t *local,
                                         cl_uint wait_count, const cl_event *wait, cl_event *event)
{
    cl_device_id device = NULL;
    cl_ulong bytes = 0;
    next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    next->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (local_bytes_limit() > 0 && bytes > local_bytes_limit()) {
        fprintf(stderr, "small_layer: a kernel with %llu bytes of local memory\n", (unsigned long long)bytes);
        return CL_OUT_OF_RESOURCES;
    }
    return next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, wait_count, wait, event);
}

static void later_call(void)
{
    fprintf(stderr, "small_layer: a call of OpenCL 2.0 or later\n");
    abort();
}

static void put_later_calls(struct _cl_icd_dispatch *table)
{
    void (*const call)(void) = later_call;
    size_t at = offsetof(struct _cl_icd_dispatch, clCreateCommandQueueWithProperties); /* the first of OpenCL 2.0 */
    for (; at < sizeof(*table); at += sizeof(call)) {
        memcpy((char *)table + at, &call, sizeof(call));
    }
}

static void put_calls(struct _cl_icd_dispatch *table)
{
    table->clGetDeviceInfo = get_device_info;
    table->clCreateBuffer = create_buffer;
    table->clCreateProgramWithSource = create_with_source;
    table->clBuildProgram = build_program;
    table->clEnqueueNDRangeKernel = enqueue_kernel;
    if (is_opencl_12()) {
        put_later_calls(table);
    }
}

#define LAYER_CALLS(own) put_calls(&(own))
#include "icd_entry.h"
