/* An OpenCL layer that lends buffers larger than the device allows: for drivers that compute in the host
 * memory they are given (PoCL). A buffer of more than 4 GiB is mapped without memory behind it, which a
 * page gets when it is touched; the driver is told of its first page only, and asked for its size this layer
 * answers. Copies by the driver do not reach beyond that page; CL_MEM_HOST_PTR does. Loaded by
 * tests/robust/large_index. One such buffer at a time. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

__attribute__((visibility("default"))) atomic_long large_layer_buffers; /* made so far */

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;
static struct {
    cl_mem buffer;
    size_t bytes;
} large;

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error)
{
    if (bytes <= ((size_t)1 << 32) || host) {
        return next->clCreateBuffer(context, flags, bytes, host, error);
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return next->clCreateBuffer(context, flags, bytes, host, error);
    }
    large.buffer = next->clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, PAGE, memory, error);
    large.bytes = bytes; /* unmapped when the process ends */
    atomic_fetch_add(&large_layer_buffers, large.buffer != NULL);
    return large.buffer;
}

static cl_int CL_API_CALL get_mem_object_info(cl_mem buffer, cl_mem_info what, size_t size, void *value, size_t *needed)
{
    cl_int code = next->clGetMemObjectInfo(buffer, what, size, value, needed);
    if (code == CL_SUCCESS && buffer == large.buffer && what == CL_MEM_SIZE && value) {
        memcpy(value, &large.bytes, sizeof(large.bytes));
    }
    return code;
}

#define LAYER_CALLS(own) ((own).clCreateBuffer = create_buffer, (own).clGetMemObjectInfo = get_mem_object_info)
#include "icd_entry.h"
