/* The functions of OpenCL that planning calls, as the loader has them, without a device behind. */
#include "null_driver.h"

#include <stdlib.h>
#include <string.h>

/* Objects that nobody looks into: their addresses are all they have. */
static char platform_object, device_object, context_object, queue_object, buffer_object;
#define PLATFORM ((cl_platform_id)(void *)&platform_object)
#define DEVICE ((cl_device_id)(void *)&device_object)
#define CONTEXT ((cl_context)(void *)&context_object)
#define QUEUE ((cl_command_queue)(void *)&queue_object)
#define BUFFER ((cl_mem)(void *)&buffer_object)

static const struct null_device *now = null_devices;

void null_driver_use(const struct null_device *device)
{
    now = device;
}

const struct null_device *null_driver_device(void)
{
    return now;
}

cl_device_id null_driver_device_id(void)
{
    return DEVICE;
}

cl_context null_driver_context(void)
{
    return CONTEXT;
}

cl_command_queue null_driver_queue(void)
{
    return QUEUE;
}

cl_mem null_driver_buffer(void)
{
    return BUFFER;
}

cl_int null_driver_answer(const void *answer, size_t bytes, size_t size, void *value, size_t *needed)
{
    if (value && size < bytes) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, answer, bytes);
    }
    if (needed) {
        *needed = bytes;
    }
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *value, size_t *needed)
{
    return null_driver_answer(text, strlen(text) + 1, size, value, needed);
}

/* ---- platform and device ---------------------------------------------------------------------- */

cl_int CL_API_CALL clGetPlatformIDs(cl_uint count, cl_platform_id *platforms, cl_uint *found)
{
    if (count > 0) {
        platforms[0] = PLATFORM;
    }
    if (found) {
        *found = 1;
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
                                     size_t *needed)
{
    (void)platform;
    return answer_text(what == CL_PLATFORM_NAME ? now->platform : "OpenCL 3.0", size, value, needed);
}

cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id *devices,
                                  cl_uint *found)
{
    (void)platform;
    (void)type;
    if (count > 0) {
        devices[0] = DEVICE;
    }
    if (found) {
        *found = 1;
    }
    return CL_SUCCESS;
}

static cl_int device_number(cl_device_info what, size_t size, void *value, size_t *needed)
{
    const cl_ulong gigabyte = (cl_ulong)1 << 30;
    const struct {
        cl_device_info what;
        size_t bytes;
        cl_ulong number; /* little-endian: its first bytes are the smaller types */
    } numbers[] = {
        { CL_DEVICE_TYPE, sizeof(cl_device_type), now->type },
        { CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint), now->compute_units },
        { CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t), now->work_group_limit },
        { CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof(cl_uint), 3 },
        { CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong), now->local_bytes },
        { CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong), 16 * gigabyte },
        { CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong), 4 * gigabyte },
        { CL_DEVICE_MAX_PARAMETER_SIZE, sizeof(size_t), now->parameter_bytes },
        { CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(cl_uint), 1024 },
        { CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(cl_uint), 1 },
        { CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool), CL_TRUE },
        { CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool), CL_TRUE },
        { CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_ulong), now->has_fp64 ? CL_FP_FMA | CL_FP_DENORM : 0 },
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        if (numbers[i].what == what) {
            return null_driver_answer(&numbers[i].number, numbers[i].bytes, size, value, needed);
        }
    }
    return CL_INVALID_VALUE;
}

cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed)
{
    const cl_device_info sub_group_sizes_intel = 0x4108;
    const cl_platform_id platform = PLATFORM;
    const size_t work_items[3] = { now->work_group_limit, now->work_group_limit, 64 };
    size_t sizes = 0;
    (void)device;
    switch (what) {
    case CL_DEVICE_NAME:
        return answer_text(now->name, size, value, needed);
    case CL_DEVICE_VENDOR:
        return answer_text(now->vendor, size, value, needed);
    case CL_DEVICE_VERSION:
        return answer_text("OpenCL 3.0", size, value, needed);
    case CL_DRIVER_VERSION:
        return answer_text("null", size, value, needed);
    case CL_DEVICE_EXTENSIONS:
        return answer_text(now->extensions, size, value, needed);
    case CL_DEVICE_PLATFORM:
        return null_driver_answer(&platform, sizeof(platform), size, value, needed);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return null_driver_answer(work_items, sizeof(work_items), size, value, needed);
    default:
        break;
    }
    if (what == sub_group_sizes_intel && now->sub_group_sizes[0] > 0) {
        while (sizes < 3 && now->sub_group_sizes[sizes] > 0) {
            ++sizes;
        }
        return null_driver_answer(now->sub_group_sizes, sizes * sizeof(size_t), size, value, needed);
    }
    return device_number(what, size, value, needed);
}

/* ---- context, queue, buffer ------------------------------------------------------------------- */

cl_context CL_API_CALL clCreateContext(const cl_context_properties *properties, cl_uint count,
                                       const cl_device_id *devices,
                                       void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                       void *user, cl_int *code)
{
    (void)properties;
    (void)count;
    (void)devices;
    (void)notify;
    (void)user;
    *code = CL_SUCCESS;
    return CONTEXT;
}

cl_int CL_API_CALL clRetainContext(cl_context context)
{
    (void)context;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clReleaseContext(cl_context context)
{
    (void)context;
    return CL_SUCCESS;
}

cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                  cl_command_queue_properties properties, cl_int *code)
{
    (void)context;
    (void)device;
    (void)properties;
    *code = CL_SUCCESS;
    return QUEUE;
}

cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what, size_t size, void *value,
                                         size_t *needed)
{
    const cl_context context = CONTEXT;
    const cl_device_id device = DEVICE;
    const cl_command_queue_properties in_order = 0;
    (void)queue;
    return what == CL_QUEUE_CONTEXT  ? null_driver_answer(&context, sizeof(context), size, value, needed)
           : what == CL_QUEUE_DEVICE ? null_driver_answer(&device, sizeof(device), size, value, needed)
                                     : null_driver_answer(&in_order, sizeof(in_order), size, value, needed);
}

cl_int CL_API_CALL clFinish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                            size_t size, void *value, size_t *needed)
{
    (void)kernel;
    (void)device;
    (void)what;
    return null_driver_answer(&null_driver_device()->work_group_limit, sizeof(size_t), size, value, needed);
}
