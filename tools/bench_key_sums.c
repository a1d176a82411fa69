#include "bench_key_sums.h"

#include <string.h>

#include "bench_call.h"
#include "library.h"

static size_t element_bytes(const clattn_problem *p)
{
    return clattn_type_size(p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32);
}

int bench_key_sums_make(const struct options *options, const clattn_problem *forward, clattn_context *context,
                        struct bench_key_sums *sums, struct failure *failure)
{
    const clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
    const clattn_key_sums device = CLATTN_KEY_SUMS_INIT;
    memset(sums, 0, sizeof *sums);
    sums->problem = problem;
    sums->problem.forward = forward;
    sums->device = device;
    if (option_integer(options, OPTION_BENCH_KEY_SUMS, 0, INT64_MAX, &sums->problem.last_rows, failure) != 0) {
        return -1;
    }
    const clattn_status status = clattn_key_sums_plan_create(context, &sums->problem, &sums->plan);
    if (status != CLATTN_OK) {
        return library_failure(options, status, failure);
    }
    const size_t bytes = (size_t)forward->batch * (size_t)forward->query_heads * (size_t)forward->key_len *
                         element_bytes(forward);
    if (bench_data_buffer(context, NULL, bytes, &sums->buffer, failure) != 0) {
        return -1;
    }
    sums->device.key_sums = clattn_tensor_bhsd(sums->buffer, forward->query_heads, 1, forward->key_len);
    return bench_workspace_make(sums->plan, context, &sums->device.workspace, failure);
}

void bench_key_sums_free(struct bench_key_sums *sums)
{
    clattn_plan_destroy(sums->plan);
    if (sums->buffer) {
        clReleaseMemObject(sums->buffer);
    }
    if (sums->device.workspace) {
        clReleaseMemObject(sums->device.workspace);
    }
}

int bench_key_sums_call(const struct options *options, const struct bench_key_sums *sums, cl_command_queue queue,
                        const struct bench_data *data, struct failure *failure)
{
    const clattn_status status =
        clattn_enqueue_key_sums(sums->plan, queue, &data->values, &data->device, &sums->device, 0, NULL, NULL);
    return status == CLATTN_OK ? bench_finish(queue, failure) : library_failure(options, status, failure);
}
