/* The table of small calls, their values, and their way to the device and back. */
#include "small_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_options.h"
#include "program/gemm.h"

struct sample_row {
    const char *name;
    clattn_type type, bias_type, sinks_type;
    int batch, query_heads, kv_heads, query_len, key_len, head_dim, head_dim_v;
    uint32_t features;
    int causal;
    clattn_alignment alignment;
    int window_left, window_right, always_visible_keys;
    double softcap, dropout;
    clattn_weights weights;
    int gaps; /* rows before heads, strided columns, poison between */
};

/* clang-format off */
static const struct sample_row rows[] = {
    [SAMPLE_PLAIN_FLOAT32] = { .name = "float32", .batch = 2, .query_heads = 3, .kv_heads = 3,
        .query_len = 5, .key_len = 7, .head_dim = 9, .head_dim_v = 4 },
    [SAMPLE_MASKED] = { .name = "causal, mask, lse, grouped heads", .query_heads = 2, .kv_heads = 1,
        .query_len = 6, .key_len = 11, .head_dim = 16, .causal = 1,
        .alignment = CLATTN_ALIGN_BOTTOM_RIGHT, .features = CLATTN_WITH_MASK | CLATTN_WITH_LSE },
    [SAMPLE_MASKED_BFLOAT16] = { .name = "the same in bfloat16", .type = CLATTN_BFLOAT16,
        .query_heads = 2, .kv_heads = 1, .query_len = 6, .key_len = 11, .head_dim = 16, .causal = 1,
        .alignment = CLATTN_ALIGN_BOTTOM_RIGHT, .features = CLATTN_WITH_MASK | CLATTN_WITH_LSE },
    { .name = "tiles and tails", .query_heads = 2, .kv_heads = 1, .query_len = 70, .key_len = 133,
      .head_dim = 80, .head_dim_v = 33, .features = CLATTN_WITH_LSE },
    { .name = "decoding", .batch = 2, .query_heads = 4, .kv_heads = 1, .query_len = 1, .key_len = 67,
      .head_dim = 64, .causal = 1, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT,
      .features = CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_LSE },
    { .name = "window, slopes, softcap", .query_heads = 3, .kv_heads = 3, .query_len = 19,
      .key_len = 23, .head_dim = 5, .alignment = CLATTN_ALIGN_OFFSETS, .batch = 2,
      .window_left = 4, .window_right = 2, .always_visible_keys = 2, .softcap = 1.5,
      .features = CLATTN_WITH_SLOPES | CLATTN_WITH_LSE },
    { .name = "sinks, dropout, float16 bias", .query_heads = 2, .kv_heads = 2, .query_len = 17,
      .key_len = 18, .head_dim = 32, .head_dim_v = 24, .bias_type = CLATTN_FLOAT16, .dropout = 0.3,
      .features = CLATTN_WITH_SINKS | CLATTN_WITH_LSE },
    { .name = "packed sequences", .batch = 3, .query_heads = 2, .kv_heads = 1, .query_len = 9,
      .key_len = 12, .head_dim = 20, .causal = 1, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT,
      .features = CLATTN_WITH_VARLEN | CLATTN_WITH_LSE },
    { .name = "softmax weights", .query_heads = 2, .kv_heads = 2, .query_len = 7, .key_len = 10,
      .head_dim = 12, .causal = 1, .alignment = CLATTN_ALIGN_TOP_LEFT,
      .weights = CLATTN_WEIGHTS_SOFTMAX },
    { .name = "logits as weights, bfloat16 bias", .query_heads = 2, .kv_heads = 1, .query_len = 5,
      .key_len = 9, .head_dim = 8, .bias_type = CLATTN_BFLOAT16, .weights = CLATTN_WEIGHTS_LOGITS,
      .features = CLATTN_WITH_MASK },
    { .name = "float16", .type = CLATTN_FLOAT16, .query_heads = 2, .kv_heads = 1, .query_len = 13,
      .key_len = 21, .head_dim = 27, .causal = 1, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT },
    { .name = "bfloat16", .type = CLATTN_BFLOAT16, .query_heads = 2, .kv_heads = 1, .query_len = 13,
      .key_len = 21, .head_dim = 24, .features = CLATTN_WITH_MASK },
    { .name = "float64", .type = CLATTN_FLOAT64, .query_heads = 2, .kv_heads = 1, .query_len = 6,
      .key_len = 15, .head_dim = 11, .bias_type = CLATTN_FLOAT64,
      .features = CLATTN_WITH_SINKS, .sinks_type = CLATTN_FLOAT64 },
    { .name = "strides with gaps", .batch = 2, .query_heads = 2, .kv_heads = 2, .query_len = 6,
      .key_len = 9, .head_dim = 7, .features = CLATTN_WITH_MASK | CLATTN_WITH_LSE, .gaps = 1 },
    { .name = "no keys", .query_heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 0, .head_dim = 4,
      .features = CLATTN_WITH_LSE },
};
/* clang-format on */

const int sample_count = sizeof(rows) / sizeof(rows[0]);

const char *sample_name(int index)
{
    return rows[index].name;
}

/* ---- strategies ----------------------------------------------------------------------------- */

/* The table's strategies, and staged once more with CLBlast. */
static const char *table_strategy(size_t index)
{
    const char *name = strategy_of_table(index);
    return !name && index > 0 && strategy_of_table(index - 1) && gemm_is_built() ? "staged/clblast" : name;
}

const char *sample_strategy(size_t index)
{
    static char chosen[256];
    const char *wanted = getenv("CLATTN_TEST_STRATEGIES");
    if (!wanted || !wanted[0]) {
        return table_strategy(index);
    }
    snprintf(chosen, sizeof(chosen), "%s", wanted);
    for (char *name = strtok(chosen, " "); name; name = strtok(NULL, " ")) {
        if (index-- == 0) {
            return name;
        }
    }
    return NULL;
}

/* ---- making calls ---------------------------------------------------------------------------- */

static clattn_problem problem_of(const struct sample_row *row, const char *strategy)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.type = row->type ? row->type : CLATTN_FLOAT32;
    p.batch = row->batch ? row->batch : 1;
    p.query_heads = row->query_heads;
    p.kv_heads = row->kv_heads;
    p.query_len = row->query_len;
    p.key_len = row->key_len;
    p.head_dim = row->head_dim;
    p.head_dim_v = row->head_dim_v;
    p.features = row->features;
    p.bias_type = row->bias_type;
    p.sinks_type = row->sinks_type;
    p.weights = row->weights;
    p.causal = row->causal;
    p.alignment = row->alignment;
    if (row->window_left) {
        p.window_left = row->window_left;
        p.window_right = row->window_right;
    }
    p.always_visible_keys = row->always_visible_keys;
    p.softcap = row->softcap;
    p.dropout = row->dropout;
    p.strided_columns = row->gaps;
    strategy_set(&p, strategy);
    return p;
}

static double value_of(struct random *random, const int64_t index[4], const void *context)
{
    const enum tensor_id id = *(const enum tensor_id *)context;
    const int64_t column = index[3];
    switch (id) {
    case TENSOR_MASK:
        return (index[2] * 7 + column * 3 + index[1]) % 4 != 0;
    case TENSOR_KEY_LENGTHS:
        return (double)(60 - 13 * column);
    case TENSOR_QUERY_OFFSETS:
        return (double)(3 - 5 * column);
    case TENSOR_CU_QUERY:
        return (double)(column * column); /* 0 1 4 9 */
    case TENSOR_CU_KEY:
        return (double)(4 * column);
    case TENSOR_SLOPES:
        return 0.1 * (double)(1 + index[1]);
    default:
        return id == TENSOR_QUERY ? 6 * random_unit(random) - 3 : 2 * random_unit(random) - 1;
    }
}

void sample_create(struct test_call *test, int index, const char *strategy)
{
    static const struct test_layout gaps = { { 0, 2, 1, 3 }, { 3, 2, 1, 1 }, { 0 }, { 0 }, 5, 1 };
    const struct sample_row *row = &rows[index];
    const clattn_problem problem = problem_of(row, strategy);
    struct random random = random_start(2024, (uint64_t)index);
    test_call_start(test, &problem);
    if (problem.features & CLATTN_WITH_VARLEN) { /* by value_of: the seams of three sequences */
        test->packed_queries = 9;
        test->packed_keys = 12;
    }
    for (int i = 0; i < TENSOR_COUNT; ++i) {
        const enum tensor_id id = (enum tensor_id)i;
        if (!test_call_has(test, id)) {
            continue;
        }
        test_call_place(test, id, row->gaps && id < TENSOR_SLOPES ? &gaps : NULL);
        if (!forward_is_output((int)id)) {
            test_call_fill(test, id, &random, value_of, &id);
        }
    }
}

/* ---- comparing ------------------------------------------------------------------------------ */

static double difference(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b) ? 0 : INFINITY;
    }
    return a < b || a > b ? fabs(a - b) : 0;
}

double sample_difference(const struct test_call *a, const struct test_call *b)
{
    double largest = 0;
    for (int i = 0; i < TENSOR_COUNT; ++i) {
        const enum tensor_id id = (enum tensor_id)i;
        int64_t n[4];
        if (!forward_is_output((int)id) || !test_call_has(a, id)) {
            continue;
        }
        test_call_shape(a, id, n);
        for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
            int64_t c = at % n[3], row = at / n[3] % n[2], h = at / n[3] / n[2] % n[1];
            int64_t batch = at / n[3] / n[2] / n[1];
            double d = difference(test_call_get(a, id, batch, h, row, c), test_call_get(b, id, batch, h, row, c));
            largest = d > largest ? d : largest;
        }
    }
    return largest;
}

double sample_tolerance(const struct test_call *test)
{
    return test->problem.type == CLATTN_FLOAT16 ? 2e-3 : test->problem.type == CLATTN_BFLOAT16 ? 2e-2 : 2e-5;
}

int sample_equal(const struct test_call *a, const struct test_call *b)
{
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const struct test_array *x = &a->arrays[id], *y = &b->arrays[id];
        if (forward_is_output(id) && x->data && memcmp(x->data, y->data, (size_t)x->count * x->element_bytes) != 0) {
            return 0;
        }
    }
    return 1;
}

/* ---- device memory -------------------------------------------------------------------------- */

int sample_upload(struct sample_device *device, const struct test_call *test, cl_context context,
                  size_t workspace_bytes)
{
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    cl_int code = CL_SUCCESS;
    memset(device, 0, sizeof(*device));
    device->tensors = none;
    device->values = test->values;
    for (int i = 0; i < TENSOR_COUNT && code == CL_SUCCESS; ++i) {
        const enum tensor_id id = (enum tensor_id)i;
        const struct test_array *array = &test->arrays[id];
        if (!test_call_has(test, id) || array->count == 0) {
            continue;
        }
        const clattn_host_tensor *host = test_call_tensor((struct test_call *)test, id);
        clattn_tensor *tensor = device_tensor_of(&device->tensors, (int)id);
        const cl_mem_flags flags = forward_is_output((int)id) ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
        device->buffers[id] = clCreateBuffer(context, flags | CL_MEM_COPY_HOST_PTR,
                                             (size_t)array->count * array->element_bytes, array->data, &code);
        tensor->buffer = device->buffers[id];
        tensor->offset = host->offset;
        memcpy(tensor->stride, host->stride, sizeof(tensor->stride));
    }
    if (workspace_bytes > 0 && code == CL_SUCCESS) {
        device->workspace = clCreateBuffer(context, CL_MEM_READ_WRITE, workspace_bytes, NULL, &code);
        device->tensors.workspace = device->workspace;
    }
    if (code != CL_SUCCESS) {
        sample_release(device);
    }
    return code == CL_SUCCESS;
}

int sample_download(const struct sample_device *device, struct test_call *test, cl_command_queue queue)
{
    cl_int code = clFinish(queue);
    for (int id = 0; id < TENSOR_COUNT && code == CL_SUCCESS; ++id) {
        const struct test_array *array = &test->arrays[id];
        if (forward_is_output(id) && device->buffers[id]) {
            code = clEnqueueReadBuffer(queue, device->buffers[id], CL_TRUE, 0,
                                       (size_t)array->count * array->element_bytes, array->data, 0, NULL, NULL);
        }
    }
    return code == CL_SUCCESS;
}

void sample_release(struct sample_device *device)
{
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        if (device->buffers[id]) {
            clReleaseMemObject(device->buffers[id]);
        }
    }
    if (device->workspace) {
        clReleaseMemObject(device->workspace);
    }
    memset(device, 0, sizeof(*device));
}

int sample_for(clattn_context *context, const char *strategy)
{
    static const int samples[] = { SAMPLE_MASKED, SAMPLE_MASKED_BFLOAT16 };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); ++i) {
        const clattn_problem problem = problem_of(&rows[samples[i]], strategy);
        clattn_plan *plan = NULL;
        clattn_status status = clattn_plan_create(context, &problem, &plan);
        clattn_plan_destroy(plan);
        if (status != CLATTN_UNSUPPORTED) {
            return samples[i];
        }
    }
    return -1;
}
