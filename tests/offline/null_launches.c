/* Buffers and launches of the null driver: there is nothing behind them. */
#include "null_driver.h"

cl_int CL_API_CALL clGetMemObjectInfo(cl_mem buffer, cl_mem_info what, size_t size, void *value, size_t *needed)
{
    const cl_context context = null_driver_context();
    const size_t bytes = (size_t)1 << 30;
    (void)buffer;
    return what == CL_MEM_CONTEXT ? null_driver_answer(&context, sizeof(context), size, value, needed)
                                  : null_driver_answer(&bytes, sizeof(bytes), size, value, needed);
}

cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    (void)kernel;
    (void)index;
    (void)size;
    (void)value;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                          const size_t *offset, const size_t *global, const size_t *local,
                                          cl_uint waits, const cl_event *wait, cl_event *done)
{
    (void)queue;
    (void)kernel;
    (void)dimensions;
    (void)offset;
    (void)global;
    (void)local;
    (void)waits;
    (void)wait;
    (void)done;
    return CL_SUCCESS;
}
