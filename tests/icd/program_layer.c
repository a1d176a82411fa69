/* An OpenCL layer that counts programs made from source and from binaries, refuses binaries on request, and
 * can hide the device's compiler. Loaded into the children of tests/cache/program_cache, which read
 * program_layer and set it by the environment: PROGRAM_LAYER_REFUSE, PROGRAM_LAYER_NO_COMPILER. */
#define CL_TARGET_OPENCL_VERSION 300
#include "program_layer.h"

#include <CL/cl_layer.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) struct program_layer program_layer;

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count, const char **text,
                                                 const size_t *sizes, cl_int *error)
{
    atomic_fetch_add(&program_layer.sources, 1);
    if (getenv("PROGRAM_LAYER_NO_COMPILER")) {
        *error = CL_INVALID_OPERATION;
        return NULL;
    }
    return next->clCreateProgramWithSource(context, count, text, sizes, error);
}

static cl_program CL_API_CALL create_with_binary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                 const size_t *sizes, const unsigned char **binaries, cl_int *states,
                                                 cl_int *error)
{
    atomic_fetch_add(&program_layer.binaries, 1);
    if (getenv("PROGRAM_LAYER_REFUSE")) {
        *states = CL_INVALID_BINARY;
        *error = CL_INVALID_BINARY;
        return NULL;
    }
    return next->clCreateProgramWithBinary(context, count, devices, sizes, binaries, states, error);
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t size, void *value,
                                          size_t *needed)
{
    cl_int code = next->clGetDeviceInfo(device, what, size, value, needed);
    if (code == CL_SUCCESS && what == CL_DEVICE_COMPILER_AVAILABLE && value && getenv("PROGRAM_LAYER_NO_COMPILER")) {
        *(cl_bool *)value = CL_FALSE;
    }
    return code;
}

#define LAYER_CALLS(own)                                                                                               \
    ((own).clCreateProgramWithSource = create_with_source, (own).clCreateProgramWithBinary = create_with_binary,       \
     (own).clGetDeviceInfo = get_device_info)
#include "icd_entry.h"
