/* An OpenCL layer that makes any device a smaller one, and holds the program to it:
 *
 *     SMALL_LOCAL_BYTES=N    so much local memory; a kernel that has more is not enqueued
 *     SMALL_NO_FP64=1        no float64; the word `double` in a kernel does not compile
 *
 * Loaded by OPENCL_LAYERS; tests/runtimes/run has the devices that are made with it. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

/* ---- what it answers ------------------------------------------------------------------------ */

/* 0: not set. */
static cl_ulong local_bytes_limit(void)
{
    const char *text = getenv("SMALL_LOCAL_BYTES");
    return text ? strtoull(text, NULL, 10) : 0;
}

static int hides_fp64(void)
{
    return getenv("SMALL_NO_FP64") != NULL;
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
    cl_int code = next->clGetDeviceInfo(device, what, size, value, needed);
    if (code == CL_SUCCESS && value) {
        make_smaller(what, value);
    }
    return code;
}

/* ---- what it forbids ------------------------------------------------------------------------ */

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

#define LAYER_CALLS(own)                                                                               \
    ((own).clGetDeviceInfo = get_device_info, (own).clCreateProgramWithSource = create_with_source,    \
     (own).clEnqueueNDRangeKernel = enqueue_kernel)
#include "layer_entry.h"
