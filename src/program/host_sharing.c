#include "program/host_sharing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096
#define LEAST_BYTES 64 /* a cache line: kernels load as much at once */
#define PROBE_BYTES 256

/* By what the device says; 0: it shares no memory with the host. Only PoCL does: others let go of buffers in threads of
 * their own, nobody knows when, and the caller's memory may be gone by then. (Intel's FPGA emulator died in its
 * compiler in 4 of 220 runs that had given it memory and freed it after the release, and in none of 220 others.) */
static size_t alignment_asked(const struct device *device)
{
    cl_bool unified = CL_FALSE;
    cl_uint bits = 0;
    if (strcmp(device->platform_name, "Portable Computing Language") != 0) {
        return 0;
    }
    if (clGetDeviceInfo(device->id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(unified), &unified, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(device->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(bits), &bits, NULL) != CL_SUCCESS ||
        !unified || bits / 8 > PAGE_BYTES || (bits & (bits - 1)) != 0) {
        return 0;
    }
    if (device->device_class != DEVICE_CPU) {
        return PAGE_BYTES; /* what is mapped into a GPU's addresses is pages */
    }
    return bits / 8 > LEAST_BYTES ? bits / 8 : LEAST_BYTES;
}

/* A command writes into the buffer: does it arrive in host memory, and nowhere beside it, with nothing mapped? */
static int arrives(const clattn_context *context, unsigned char *memory, size_t alignment)
{
    unsigned char pattern[PROBE_BYTES];
    cl_int code;
    memset(pattern, 0xa5, sizeof(pattern));
    cl_mem buffer =
        clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, PROBE_BYTES, memory + alignment, &code);
    if (code != CL_SUCCESS) {
        return 0;
    }
    code = clEnqueueWriteBuffer(context->queue, buffer, CL_TRUE, 0, PROBE_BYTES, pattern, 0, NULL, NULL);
    const int same = code == CL_SUCCESS && memcmp(memory + alignment, pattern, PROBE_BYTES) == 0;
    clReleaseMemObject(buffer);
    return same && memory[alignment - 1] == 0 && memory[alignment + PROBE_BYTES] == 0;
}

size_t host_sharing_alignment(const clattn_context *context)
{
    const size_t alignment = alignment_asked(&context->device);
    unsigned char *memory = alignment ? calloc(4, PAGE_BYTES) : NULL;
    if (!memory) {
        return 0;
    }
    unsigned char *page = memory + (PAGE_BYTES - (uintptr_t)memory % PAGE_BYTES) % PAGE_BYTES;
    const int shares = arrives(context, page, alignment);
    free(memory);
    return shares ? alignment : 0;
}
