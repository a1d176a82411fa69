/* An OpenCL layer with drivers that are broken, for tests/robust/broken_devices.sh. By the environment:
 *
 *     BROKEN_DEVICE=NAME    devices with this in their name answer no question but that for the name
 *     BROKEN_PLATFORM=1     there is one platform more, before all others; it cannot list its devices
 *     BROKEN_PLATFORM=empty the same, and it has none */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdlib.h>
#include <string.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

static char made_up; /* its address is the platform */
#define MADE_UP ((cl_platform_id)(void *)&made_up)

static int is_broken(cl_device_id device)
{
    const char *part = getenv("BROKEN_DEVICE");
    char name[1024] = "";
    next->clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
    return part && strstr(name, part);
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t size, void *value,
                                          size_t *needed)
{
    return what != CL_DEVICE_NAME && is_broken(device) ? CL_DEVICE_NOT_AVAILABLE
                                                       : next->clGetDeviceInfo(device, what, size, value, needed);
}

static cl_int CL_API_CALL get_platform_ids(cl_uint size, cl_platform_id *platforms, cl_uint *count)
{
    if (!getenv("BROKEN_PLATFORM")) {
        return next->clGetPlatformIDs(size, platforms, count);
    }
    cl_uint others = 0;
    cl_int code = next->clGetPlatformIDs(size > 1 ? size - 1 : 0, size > 1 ? platforms + 1 : NULL, &others);
    if (platforms && size > 0) {
        platforms[0] = MADE_UP;
    }
    if (count) {
        *count = others + 1;
    }
    return size == 1 || others == 0 ? CL_SUCCESS : code;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
                                            size_t *needed)
{
    static const char name[] = "Broken Platform";
    if (platform != MADE_UP) {
        return next->clGetPlatformInfo(platform, what, size, value, needed);
    }
    if (what != CL_PLATFORM_NAME || (value && size < sizeof(name))) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, name, sizeof(name));
    }
    if (needed) {
        *needed = sizeof(name);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint size,
                                         cl_device_id *devices, cl_uint *count)
{
    if (platform != MADE_UP) {
        return next->clGetDeviceIDs(platform, type, size, devices, count);
    }
    return strcmp(getenv("BROKEN_PLATFORM"), "empty") == 0 ? CL_DEVICE_NOT_FOUND : CL_OUT_OF_HOST_MEMORY;
}

#define LAYER_CALLS(own)                                                                                               \
    ((own).clGetDeviceInfo = get_device_info, (own).clGetPlatformIDs = get_platform_ids,                               \
     (own).clGetPlatformInfo = get_platform_info, (own).clGetDeviceIDs = get_device_ids)
#include "icd_entry.h"
