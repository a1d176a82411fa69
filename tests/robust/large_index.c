/* Elements beyond index 2^32 are read and written where they are: a buffer of 8 GiB holds query, key, value
 * and out, head 0 at its beginning, head 1 a stride of 2^32 elements behind. The buffer is lent by
 * large_layer and has memory only where it is touched; skipped where the driver is not PoCL. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "icd/icd_layers.h"
#include "support/small_calls.h"

#define FAR ((int64_t)1 << 32) /* elements */

static int passed, failed, skipped;

static void report(int ok, const char *strategy, const char *what)
{
    passed += ok;
    failed += !ok;
    if (!ok) {
        printf("FAILED %s: %s\n", strategy, what);
    }
}

/* Head 0 at the beginning of the buffer, head 1 beyond 2^32 elements; 16-bit elements. */
struct place {
    int64_t offset; /* of head 0, in elements */
    int rows, columns;
};

static const struct place query_place = { 64, 3, 8 }, key_place = { 256, 5, 8 }, value_place = { 512, 5, 4 },
                          out_place = { 1024, 3, 4 };

static clattn_tensor tensor_at(const struct place *place, cl_mem buffer)
{
    clattn_tensor tensor = { buffer, place->offset, { 0, FAR, place->columns, 1 } };
    return tensor;
}

/* Copies both heads between the buffer and dense host memory. The kernels have ended. */
static void copy(cl_mem buffer, const struct place *place, uint16_t *host, int is_write)
{
    const size_t bytes = (size_t)(place->rows * place->columns) * 2;
    uint16_t *memory = NULL;
    clGetMemObjectInfo(buffer, CL_MEM_HOST_PTR, sizeof(memory), &memory, NULL);
    for (int head = 0; head < 2; ++head) {
        uint16_t *far = memory + place->offset + head * FAR, *near = host + (size_t)head * bytes / 2;
        memcpy(is_write ? far : near, is_write ? near : far, bytes);
    }
}

static void fill(uint16_t *values, size_t count, uint16_t seed)
{
    for (size_t i = 0; i < count; ++i) { /* float16 in [0.5, 2) */
        values[i] = (uint16_t)(0x3800 + (i * 193 + seed) % 0x800);
    }
}

static void run(clattn_context *context, cl_mem buffer, const char *strategy)
{
    uint16_t query[2 * 3 * 8], key[2 * 5 * 8], value[2 * 5 * 4], out[2 * 3 * 4], expected[2 * 3 * 4];
    cl_command_queue queue = clattn_context_queue(context);
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_plan *plan;
    problem.type = CLATTN_FLOAT16;
    problem.query_heads = problem.kv_heads = 2;
    problem.query_len = 3;
    problem.key_len = 5;
    problem.head_dim = 8;
    problem.head_dim_v = 4;
    problem.strategy = strategy;
    fill(query, sizeof(query) / 2, 7);
    fill(key, sizeof(key) / 2, 100);
    fill(value, sizeof(value) / 2, 1000);
    memset(out, 0xff, sizeof(out));
    clattn_status status = clattn_plan_create(context, &problem, &plan);
    if (status == CLATTN_UNSUPPORTED) {
        ++skipped;
        return;
    }
    report(status == CLATTN_OK, strategy, clattn_last_error());
    copy(buffer, &query_place, query, 1);
    copy(buffer, &key_place, key, 1);
    copy(buffer, &value_place, value, 1);
    copy(buffer, &out_place, out, 1);
    tensors.query = tensor_at(&query_place, buffer);
    tensors.key = tensor_at(&key_place, buffer);
    tensors.value = tensor_at(&value_place, buffer);
    tensors.out = tensor_at(&out_place, buffer);
    if (clattn_plan_workspace(plan) > 0) {
        tensors.workspace =
            clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, clattn_plan_workspace(plan), NULL, NULL);
    }
    report(clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL) == CLATTN_OK, strategy,
           clattn_last_error());
    report(clFinish(queue) == CL_SUCCESS, strategy, "the kernels failed");
    copy(buffer, &out_place, out, 0);
    clattn_host_tensors near = CLATTN_HOST_TENSORS_INIT; /* the same call, dense */
    near.query.data = query;
    near.key.data = key;
    near.value.data = value;
    near.out.data = expected;
    clattn_strides_bhsd(2, 3, 8, near.query.stride);
    clattn_strides_bhsd(2, 5, 8, near.key.stride);
    clattn_strides_bhsd(2, 5, 4, near.value.stride);
    clattn_strides_bhsd(2, 3, 4, near.out.stride);
    problem.strategy = strategy;
    report(clattn_forward_host(context, &problem, NULL, &near) == CLATTN_OK, strategy, clattn_last_error());
    report(memcmp(out, expected, sizeof(out)) == 0, strategy, "not the bits of the same call near index 0");
    if (tensors.workspace) {
        clReleaseMemObject(tensors.workspace);
    }
    clattn_plan_destroy(plan);
}

int main(void)
{
    clattn_context *context;
    const char *strategy;
    cl_int code;
    layer_request("large_layer");
    atomic_long *lent = layer_symbol("large_layer", "large_layer_buffers");
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        printf("no context: %s\n", clattn_last_error());
        return 1;
    }
    cl_mem buffer =
        clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, (size_t)(FAR + 2048) * 2, NULL, &code);
    char version[256] = "";
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_VERSION, sizeof(version), version, NULL);
    if (!strstr(version, "PoCL") && !strstr(version, "pocl")) {
        printf("the device is not PoCL\n0 passed, 0 failed, 1 skipped\n");
        clattn_context_destroy(context);
        return 77;
    }
    report(code == CL_SUCCESS && atomic_load(lent) == 1, "no strategy", "no buffer of 8 GiB was lent");
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        if (!strchr(strategy, '/')) {
            run(context, buffer, strategy);
        }
    }
    clReleaseMemObject(buffer);
    clattn_context_destroy(context);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : 0;
}
