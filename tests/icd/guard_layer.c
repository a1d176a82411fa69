/* An OpenCL layer that puts every buffer between two pages that cannot be touched, and fills it with NaN.
 * For drivers that compute in the host memory they are given (PoCL). Loaded by OPENCL_LAYERS into
 * tests/robust/guards, tests/solve_cases or any other program.
 *
 *     | no access | NaN ... NaN | buffer, to the last byte of its page | no access |
 *     | no access | buffer, from the first byte of its page | NaN ... NaN | no access |    with guard_layer_in_front
 *
 * Reading or writing behind the end is a SIGSEGV; what is written before the beginning, in the same page, is
 * not seen; the other way round for buffers that are made while guard_layer_in_front is set. A buffer of a multiple
 * of 2^k bytes is aligned to 2^k (up to a page), which is what a kernel that reads vectors may count on. Read-only
 * buffers that have their content from the start cannot be written at all. The device says that it shares no memory
 * with the host, so that calls on host memory make buffers. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Buffers that were guarded: a driver asserts that it grows. */
__attribute__((visibility("default"))) atomic_long guard_layer_buffers;

/* Set by a driver: what lies before a buffer is noticed to the byte, not what lies behind it. */
__attribute__((visibility("default"))) atomic_int guard_layer_in_front;

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

struct mapping {
    char *start;
    size_t bytes;
};

static void CL_CALLBACK unmap(cl_mem buffer, void *data)
{
    struct mapping *mapping = data;
    (void)buffer;
    munmap(mapping->start, mapping->bytes);
    free(mapping);
}

/* Maps the pages; *content is where the buffer begins. */
static struct mapping *map(size_t bytes, char **content)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    struct mapping *mapping = malloc(sizeof(*mapping));
    if (!mapping) {
        return NULL;
    }
    mapping->bytes = inside + 2 * page;
    mapping->start = mmap(NULL, mapping->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping->start == MAP_FAILED) {
        free(mapping);
        return NULL;
    }
    mprotect(mapping->start, page, PROT_NONE);
    mprotect(mapping->start + page + inside, page, PROT_NONE);
    memset(mapping->start + page, 0xff, inside);
    *content = mapping->start + page + (atomic_load(&guard_layer_in_front) ? 0 : inside - bytes);
    return mapping;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error)
{
    const cl_mem_flags given = CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR;
    char *content;
    struct mapping *mapping = NULL;
    if (bytes > 0 && bytes < SIZE_MAX / 2 && !(flags & CL_MEM_USE_HOST_PTR)) {
        mapping = map(bytes, &content);
    }
    if (!mapping) {
        return next->clCreateBuffer(context, flags, bytes, host, error);
    }
    if (flags & CL_MEM_COPY_HOST_PTR && host) {
        memcpy(content, host, bytes);
        if (flags & CL_MEM_READ_ONLY) {
            mprotect(mapping->start, mapping->bytes, PROT_READ);
            const size_t page = (size_t)sysconf(_SC_PAGESIZE);
            mprotect(mapping->start, page, PROT_NONE);
            mprotect(mapping->start + mapping->bytes - page, page, PROT_NONE);
        }
    }
    cl_mem made = next->clCreateBuffer(context, (flags & ~given) | CL_MEM_USE_HOST_PTR, bytes, content, error);
    if (!made || next->clSetMemObjectDestructorCallback(made, unmap, mapping) != CL_SUCCESS) {
        unmap(NULL, mapping);
    }
    atomic_fetch_add(&guard_layer_buffers, made != NULL);
    return made;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info name, size_t bytes, void *value,
                                      size_t *needed)
{
    const cl_int code = next->clGetDeviceInfo(device, name, bytes, value, needed);
    if (code == CL_SUCCESS && name == CL_DEVICE_HOST_UNIFIED_MEMORY && value) {
        *(cl_bool *)value = CL_FALSE;
    }
    return code;
}

#define LAYER_CALLS(own) ((own).clCreateBuffer = create_buffer, (own).clGetDeviceInfo = device_info)
#include "icd_entry.h"
