/* Places of sections, and their buffers. */
#include "layers/sections.h"

#include <inttypes.h>

#include "base/error.h"

#define SECTION_ALIGNMENT 4096 /* no device asks more of a sub-buffer */

clattn_status sections_place(const struct device *device, const int64_t *bytes, size_t *at, int count, size_t *total)
{
    int64_t sum = 0;
    int fits = 1;
    for (int i = 0; i < count && fits; ++i) {
        at[i] = (size_t)sum;
        fits = bytes[i] >= 0 && bytes[i] <= INT64_MAX / 16;
        sum += fits ? (bytes[i] + SECTION_ALIGNMENT - 1) / SECTION_ALIGNMENT * SECTION_ALIGNMENT : 0;
    }
    *total = (size_t)sum;
    if (!fits || (uint64_t)sum > device->allocation_bytes || (uint64_t)sum > device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "workspace of %s%" PRId64 " bytes: device \"%s\" allows %llu bytes in one buffer "
                         "and has %llu in all; lower batch or rows",
                         fits ? "" : "more than ", sum, device->name, (unsigned long long)device->allocation_bytes,
                         (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

clattn_status section_buffer(cl_mem workspace, size_t at, size_t bytes, cl_mem *buffer)
{
    cl_int code;
    cl_buffer_region region = { at, bytes };
    *buffer = NULL;
    if (bytes == 0) {
        return CLATTN_OK;
    }
    *buffer = clCreateSubBuffer(workspace, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    return *buffer ? CLATTN_OK : error_opencl(code, "clCreateSubBuffer", "%zu bytes of the workspace", bytes);
}
