/* Buffers for each array, one enqueue, and the outputs back. */
#include "device_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/strategy.h"
#include "pooled_keys.h"

static cl_mem upload(cl_context cl, const void *data, size_t bytes)
{
    cl_int code;
    cl_mem buffer =
        clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes ? bytes : 1, (void *)data, &code);
    return code == CL_SUCCESS ? buffer : NULL;
}

/* Kernels count a key length beyond 0 to key_len as the nearer of the two, and any page outside of the pool as a hole,
 * which the blocking calls refuse but for -1. Lengths at an end are put far beyond it, holes anywhere: nothing may
 * change. */
static void put_far(const struct test_call *test, int id, int32_t *values, int64_t count)
{
    const int64_t most = test->values.key_len >= 0 ? test->values.key_len : test->problem.key_len;
    const int32_t holes[] = { INT32_MIN, (int32_t)test->problem.pages, -1, INT32_MAX };
    const int64_t first = test->tensors.key_lengths.offset;
    for (int64_t at = first; id == TENSOR_KEY_LENGTHS && at < first + test->problem.batch; ++at) {
        values[at] = values[at] <= 0 ? INT32_MIN : values[at] >= most ? INT32_MAX : values[at];
    }
    for (int64_t at = 0; id == TENSOR_PAGE_TABLE && at < count; ++at) {
        values[at] = values[at] == -1 ? holes[at % 4] : values[at];
    }
}

static cl_mem upload_array(cl_context cl, const struct test_call *test, int id)
{
    const struct test_array *array = &test->arrays[id];
    const size_t bytes = (size_t)array->count * array->element_bytes;
    const int is_changed = (id == TENSOR_KEY_LENGTHS || id == TENSOR_PAGE_TABLE) && bytes > 0;
    int32_t *values = is_changed ? malloc(bytes) : NULL;
    if (values) {
        memcpy(values, array->data, bytes);
        put_far(test, id, values, array->count);
    }
    cl_mem buffer = upload(cl, values ? (void *)values : array->data, bytes);
    free(values);
    return buffer;
}

static cl_mem poisoned_workspace(cl_context cl, size_t bytes)
{
    unsigned char *poison = bytes ? malloc(bytes) : NULL;
    cl_mem buffer = NULL;
    if (poison) {
        memset(poison, 0xff, bytes);
        buffer = upload(cl, poison, bytes);
    }
    free(poison);
    return buffer;
}

static clattn_status download(cl_command_queue queue, struct test_call *test, const cl_mem *buffers)
{
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        struct test_array *array = &test->arrays[id];
        if (buffers[id] && forward_is_output(id) &&
            clEnqueueReadBuffer(queue, buffers[id], CL_TRUE, 0, (size_t)array->count * array->element_bytes,
                                array->data, 0, NULL, NULL) != CL_SUCCESS) {
            return CLATTN_OPENCL_ERROR;
        }
    }
    return CLATTN_OK;
}

/* A buffer of a pool that was cut, in its tensor. */
static cl_mem give_pool(cl_context cl, const struct pooled_call *cut, int i, clattn_tensors *tensors)
{
    const struct pooled_array *array = &cut->arrays[i];
    const clattn_host_tensor *from = host_tensor_of((clattn_host_tensors *)&cut->tensors, (int)array->id);
    clattn_tensor *to = device_tensor_of(tensors, (int)array->id);
    to->buffer = upload(cl, array->data, array->bytes);
    to->offset = from->offset;
    memcpy(to->stride, from->stride, sizeof(to->stride));
    return to->buffer;
}

static void release(const cl_mem *buffers, int count)
{
    for (int i = 0; i < count; ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
}

clattn_status device_call_run(clattn_context *context, struct test_call *test, char *used)
{
    cl_context cl = clattn_context_cl(context);
    cl_command_queue queue = clattn_context_queue(context);
    cl_mem buffers[ALL_TENSOR_COUNT] = { NULL }, pools[2 * CLATTN_POOLS_MOST] = { NULL };
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_plan *plan = NULL;
    cl_event done = NULL;
    struct pooled_call cut;
    pooled_call_cut(test, &cut);
    clattn_status status = clattn_plan_create(context, &cut.problem, &plan);
    for (int id = 0; id < ALL_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        const struct test_array *array = &test->arrays[id];
        /* Empty tensors may be left out, but packed ones: how many rows they have is not known. */
        int packed = (test->problem.features & CLATTN_WITH_VARLEN) != 0;
        if (array->data && (array->count > 0 || packed)) {
            buffers[id] = upload_array(cl, test, id);
        }
    }
    for (int id = 0; id < ALL_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        const clattn_host_tensor *from = test_call_tensor(test, (enum tensor_id)id);
        clattn_tensor *to = device_tensor_of(&tensors, id);
        to->buffer = from->data ? buffers[test->array_of[id]] : NULL;
        to->offset = from->offset;
        memcpy(to->stride, from->stride, sizeof(to->stride));
    }
    for (int i = 0; i < cut.count && status == CLATTN_OK; ++i) {
        pools[i] = give_pool(cl, &cut, i, &tensors);
    }
    if (status == CLATTN_OK) {
        test->weight_rounding = clattn_plan_weight_rounding(plan);
        test->factor_rounding = clattn_plan_factor_rounding(plan);
        test->sum_roundings = clattn_plan_sum_roundings(plan);
        snprintf(used ? used : (char[32]){ 0 }, 32, "%s", clattn_plan_strategy(plan));
        tensors.workspace = poisoned_workspace(cl, clattn_plan_workspace(plan));
        status = clattn_enqueue_forward(plan, queue, &test->values, &tensors, 0, NULL, &done);
    }
    if (done) {
        clWaitForEvents(1, &done);
        clReleaseEvent(done);
    }
    clFinish(queue);
    if (status == CLATTN_OK) {
        status = download(queue, test, buffers);
    }
    release(buffers, ALL_TENSOR_COUNT);
    release(pools, cut.count);
    pooled_call_free(&cut);
    if (tensors.workspace) {
        clReleaseMemObject(tensors.workspace);
    }
    clattn_plan_destroy(plan);
    return status;
}

clattn_status device_call_run_blocking(clattn_context *context, struct test_call *test)
{
    struct pooled_call cut;
    pooled_call_cut(test, &cut);
    clattn_status status = clattn_forward_host(context, &cut.problem, &test->values, &cut.tensors);
    pooled_call_free(&cut);
    const struct clattn_plan *used = context->kept_plans[0]; /* the most recent one */
    test->weight_rounding = status == CLATTN_OK ? clattn_plan_weight_rounding(used) : 0;
    test->factor_rounding = status == CLATTN_OK ? clattn_plan_factor_rounding(used) : 0;
    test->sum_roundings = status == CLATTN_OK ? clattn_plan_sum_roundings(used) : 0;
    return status;
}
