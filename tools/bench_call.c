#include "bench_call.h"

#include "library.h"

int bench_call(const struct options *options, const clattn_plan *plan, cl_command_queue queue,
               const struct bench_data *data, struct failure *failure)
{
    clattn_status status = clattn_enqueue_forward(plan, queue, &data->values, &data->device, 0, NULL, NULL);
    return status == CLATTN_OK ? bench_finish(queue, failure) : library_failure(options, status, failure);
}

int bench_finish(cl_command_queue queue, struct failure *failure)
{
    const cl_int code = clFinish(queue);
    return code == CL_SUCCESS ? 0 : failure_failed(failure, "clFinish: OpenCL error %d", code);
}

int bench_workspace_make(const clattn_plan *plan, clattn_context *context, cl_mem *workspace, struct failure *failure)
{
    size_t bytes = clattn_plan_workspace(plan);
    cl_int code = CL_SUCCESS;
    if (bytes) {
        *workspace = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes, NULL, &code);
    }
    if (code != CL_SUCCESS) {
        return failure_failed(failure, "workspace of %zu bytes: OpenCL error %d", bytes, code);
    }
    return 0;
}
