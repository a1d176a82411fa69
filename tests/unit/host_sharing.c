/* Which devices are believed to compute on host memory: drivers that say one thing and do another. The linker puts the
 * calls below in the place of OpenCL's. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "program/host_sharing.h"

#include "suite.h"

#define POCL "Portable Computing Language"

enum does { WRITES, KEEPS_A_COPY, WRITES_BEFORE, WRITES_BEHIND, REFUSES_BUFFERS, REFUSES_WRITES };

struct driver {
    const char *platform;
    enum device_class device_class;
    cl_bool unified;
    cl_uint align_bits; /* CL_DEVICE_MEM_BASE_ADDR_ALIGN; 0: the device does not say */
    enum does does;
    size_t alignment; /* what must come out */
};

static struct driver driver;
static unsigned char *buffer_memory; /* of the buffer that is there */
static size_t buffer_bytes;
static int buffers;

cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed);
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *memory, cl_int *code);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t bytes,
                                   const void *from, cl_uint n_wait, const cl_event *wait, cl_event *event);
cl_int __wrap_clReleaseMemObject(cl_mem buffer);

cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed)
{
    (void)device;
    (void)needed;
    if (what == CL_DEVICE_HOST_UNIFIED_MEMORY) {
        memcpy(value, &driver.unified, size);
        return CL_SUCCESS;
    }
    memcpy(value, &driver.align_bits, size);
    return driver.align_bits > 0 ? CL_SUCCESS : CL_INVALID_VALUE;
}

cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *memory, cl_int *code)
{
    (void)context;
    ck_assert_uint_eq(flags & CL_MEM_USE_HOST_PTR, CL_MEM_USE_HOST_PTR);
    ck_assert_uint_eq((uintptr_t)memory % driver.alignment, 0);
    *code = driver.does == REFUSES_BUFFERS ? CL_INVALID_HOST_PTR : CL_SUCCESS;
    buffer_memory = memory;
    buffer_bytes = bytes;
    buffers += *code == CL_SUCCESS;
    return *code == CL_SUCCESS ? (cl_mem)&driver : NULL;
}

cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t bytes,
                                   const void *from, cl_uint n_wait, const cl_event *wait, cl_event *event)
{
    (void)queue;
    (void)buffer;
    (void)n_wait;
    (void)wait;
    (void)event;
    ck_assert(blocks && offset + bytes <= buffer_bytes);
    if (driver.does != KEEPS_A_COPY) {
        memcpy(buffer_memory + offset, from, bytes);
    }
    if (driver.does == WRITES_BEFORE) {
        buffer_memory[-1] = 1;
    }
    if (driver.does == WRITES_BEHIND) {
        buffer_memory[buffer_bytes] = 1;
    }
    return driver.does == REFUSES_WRITES ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

cl_int __wrap_clReleaseMemObject(cl_mem buffer)
{
    ck_assert_ptr_eq(buffer, &driver);
    --buffers;
    return CL_SUCCESS;
}

/* alignment: where it is 0, the driver would be asked for a buffer only by mistake, or shows by it what it does. */
static void check(struct driver wanted)
{
    static clattn_context context;
    driver = wanted;
    driver.alignment = wanted.alignment ? wanted.alignment : 1;
    memset(&context.device, 0, sizeof(context.device));
    context.device.device_class = wanted.device_class;
    snprintf(context.device.platform_name, sizeof(context.device.platform_name), "%s", wanted.platform);
    const size_t alignment = host_sharing_alignment(&context);
    ck_assert_msg(alignment == wanted.alignment, "%s, class %d, unified %d, %u bits, driver %d: %zu bytes, must be %zu",
                  wanted.platform, (int)wanted.device_class, (int)wanted.unified, (unsigned)wanted.align_bits,
                  (int)wanted.does, alignment, wanted.alignment);
    ck_assert_int_eq(buffers, 0);
}

START_TEST(test_devices)
{
    static const struct driver drivers[] = {
        { POCL, DEVICE_CPU, CL_TRUE, 1024, WRITES, 128 },
        { POCL, DEVICE_CPU, CL_TRUE, 8, WRITES, 64 }, /* never less than a cache line */
        { POCL, DEVICE_CPU, CL_TRUE, 4096 * 8, WRITES, 4096 },
        { POCL, DEVICE_CPU, CL_TRUE, 8192 * 8, WRITES, 0 }, /* more than a page */
        { POCL, DEVICE_CPU, CL_TRUE, 1536, WRITES, 0 },     /* no power of two */
        { POCL, DEVICE_CPU, CL_TRUE, 0, WRITES, 0 },
        { POCL, DEVICE_CPU, CL_FALSE, 1024, WRITES, 0 },
        { POCL, DEVICE_GPU, CL_TRUE, 1024, WRITES, 4096 },
        { POCL, DEVICE_ACCELERATOR, CL_TRUE, 1024, WRITES, 4096 },
        { "Another Platform", DEVICE_CPU, CL_TRUE, 1024, WRITES, 0 },
    };
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); ++i) {
        check(drivers[i]);
    }
}
END_TEST

START_TEST(test_what_the_driver_does)
{
    for (enum does does = KEEPS_A_COPY; does <= REFUSES_WRITES; ++does) {
        check((struct driver){ POCL, DEVICE_CPU, CL_TRUE, 1024, does, 0 });
        check((struct driver){ POCL, DEVICE_GPU, CL_TRUE, 1024, does, 0 });
    }
}
END_TEST

SUITE("host sharing", test_devices, test_what_the_driver_does)
