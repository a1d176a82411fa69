#define _DEFAULT_SOURCE
#include "bench_data.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "bench_codes.h"
#include "bench_pairs.h"
#include "insides.h"
#include "page_pools.h"
#include "problem_options.h"
#include "split_mix.h"
#include "system.h"

/* ---- random numbers: SplitMix64 and Box-Muller ---- */

static uint64_t next_random(uint64_t *state)
{
    return split_mix(*state += SPLIT_MIX_STEP);
}

static double next_uniform(uint64_t *state)
{
    return ((double)(next_random(state) >> 11) + 0.5) * 0x1p-53;
}

void bench_data_fill_normal(struct tensor *tensor, uint64_t seed)
{
    for (int64_t i = 0, n = tensor_count(tensor); i < n; i += 2) {
        double radius = sqrt(-2 * log(next_uniform(&seed)));
        double angle = 6.283185307179586 * next_uniform(&seed);
        tensor_store(tensor, i, radius * cos(angle));
        if (i + 1 < n) {
            tensor_store(tensor, i + 1, radius * sin(angle));
        }
    }
}

/* Seven of ten keys may be seen. */
static void fill_mask(struct tensor *tensor, uint64_t seed)
{
    uint8_t *mask = tensor->data;
    for (int64_t i = 0, n = tensor_count(tensor); i < n; i++) {
        mask[i] = next_uniform(&seed) < 0.7;
    }
}

/* Each page once, in an order of chance (Fisher and Yates). */
static void fill_pages(struct tensor *tensor, uint64_t seed)
{
    int32_t *page = tensor->data;
    for (int64_t i = 0, n = tensor_count(tensor); i < n; i++) {
        const int64_t other = (int64_t)(next_random(&seed) % (uint64_t)(i + 1));
        page[i] = page[other];
        page[other] = (int32_t)i;
    }
}

/* ---- tensors ---- */

/* clang-format off */
#define FIELD(name)                                                                                \
    {                                                                                              \
        #name, offsetof(clattn_host_tensors, name), offsetof(clattn_tensors, name)                 \
    }
/* clang-format on */

/* Where a tensor stands in the library's structures. */
static const struct {
    const char *name;
    size_t host, device;
} fields[BENCH_TENSORS] = {
    [BENCH_QUERY] = FIELD(query),
    [BENCH_KEY] = FIELD(key),
    [BENCH_VALUE] = FIELD(value),
    [BENCH_MASK] = FIELD(mask),
    [BENCH_BIAS] = FIELD(bias),
    [BENCH_SLOPES] = FIELD(slopes),
    [BENCH_SINKS] = FIELD(sinks),
    [BENCH_KEY_LENGTHS] = FIELD(key_lengths),
    [BENCH_OUT] = FIELD(out),
    [BENCH_LSE] = FIELD(lse),
    [BENCH_PAGE_TABLE] = FIELD(page_table),
    [BENCH_KEY_SCALES] = FIELD(key_scales),
    [BENCH_VALUE_SCALES] = FIELD(value_scales),
    [BENCH_KEY_ZERO_POINTS] = FIELD(key_zero_points),
    [BENCH_VALUE_ZERO_POINTS] = FIELD(value_zero_points),
    [BENCH_KEY_TENSOR_SCALE] = FIELD(key_tensor_scale),
    [BENCH_VALUE_TENSOR_SCALE] = FIELD(value_tensor_scale),
};

static struct bench_extents extents_of(const clattn_problem *p, enum bench_tensor id)
{
    const enum tensor_type type = tensor_type_of_storage(p->type);
    const int64_t batch = p->batch, heads = p->query_heads, rows = p->query_len;
    const uint32_t with = p->features;
    switch (id) {
    case BENCH_QUERY:
        return (struct bench_extents){ 1, type, { batch, heads, rows, p->head_dim } };
    case BENCH_KEY:
    case BENCH_VALUE:
    case BENCH_KEY_SCALES:
    case BENCH_VALUE_SCALES:
    case BENCH_KEY_ZERO_POINTS:
    case BENCH_VALUE_ZERO_POINTS:
    case BENCH_KEY_TENSOR_SCALE:
    case BENCH_VALUE_TENSOR_SCALE:
        return bench_cache_extents(p, id);
    case BENCH_PAGE_TABLE:
        return (struct bench_extents){ with & CLATTN_WITH_PAGES,
                                       TENSOR_INT32,
                                       { batch, 1, 1, batch ? p->pages / batch : 0 } };
    case BENCH_MASK:
        return (struct bench_extents){ with & CLATTN_WITH_MASK, TENSOR_UINT8, { 1, 1, rows, p->key_len } };
    case BENCH_BIAS:
        return (struct bench_extents){ p->bias_type != CLATTN_TYPE_NONE, type, { 1, 1, rows, p->key_len } };
    case BENCH_SLOPES:
        return (struct bench_extents){ with & CLATTN_WITH_SLOPES, TENSOR_FLOAT32, { 1, heads, 1, 1 } };
    case BENCH_SINKS:
        return (struct bench_extents){ with & CLATTN_WITH_SINKS, TENSOR_FLOAT32, { 1, heads, 1, 1 } };
    case BENCH_KEY_LENGTHS:
        return (struct bench_extents){ with & CLATTN_WITH_KEY_LENGTHS, TENSOR_INT32, { batch, 1, 1, 1 } };
    case BENCH_OUT:
        return (struct bench_extents){ 1, type, { batch, heads, rows, p->head_dim_v } };
    case BENCH_LSE:
        return (struct bench_extents){ with & CLATTN_WITH_LSE, TENSOR_FLOAT32, { batch, heads, rows, 1 } };
    default:
        return (struct bench_extents){ 0, type, { 0 } };
    }
}

/* A machine that promises more memory than it has would end the process while the tensors are
 * filled: refuse what is more than it has in all, twice for CPU devices, whose buffers are there
 * too. */
static int check_memory(const clattn_problem *p, struct failure *failure)
{
    double memory = system_memory_bytes();
    double dims = (double)p->head_dim + (double)p->head_dim_v;
    double rows = (double)p->query_heads * (double)p->query_len + (double)p->kv_heads * (double)p->key_len;
    double bytes = (double)p->batch * rows * dims * (double)clattn_type_size(p->type);
    if (p->features & CLATTN_WITH_MASK || p->bias_type != CLATTN_TYPE_NONE) {
        bytes += (double)p->query_len * (double)p->key_len *
                 (p->features & CLATTN_WITH_MASK ? 1 : (double)clattn_type_size(p->bias_type));
    }
    if (memory > 0 && 2 * bytes > memory) {
        return failure_failed(failure,
                              "--shape: its tensors take %.3g GB twice, on the host and on the device: "
                              "the machine has %.3g GB; take a smaller one",
                              bytes * 1e-9, memory * 1e-9);
    }
    return 0;
}

static int fill(const clattn_problem *p, struct bench_data *data, enum bench_tensor id, struct failure *failure)
{
    struct tensor *tensor = &data->tensor[id];
    if (bench_is_codes(p, id)) {
        return bench_fill_codes(p, data, id, failure);
    }
    if (id >= BENCH_KEY_SCALES && id <= BENCH_VALUE_TENSOR_SCALE) {
        return 0; /* they are made with the codes */
    }
    if (id == BENCH_MASK) {
        fill_mask(tensor, 9);
    } else if (id == BENCH_PAGE_TABLE) {
        fill_pages(tensor, 9);
    } else if (id == BENCH_KEY_LENGTHS) {
        for (int64_t b = 0; b < p->batch; b++) {
            tensor_store(tensor, b, (double)bench_key_length(p, b));
        }
    } else if (id == BENCH_SLOPES) {
        if (p->query_heads && clattn_alibi_slopes(p->query_heads, tensor->data) != CLATTN_OK) {
            return failure_of_library(failure, EXIT_FAILED, clattn_last_error());
        }
    } else if (id < BENCH_OUTPUTS) {
        bench_data_fill_normal(tensor, id == BENCH_BIAS ? 9 : (uint64_t)id + 1);
    }
    return 0;
}

static int make_tensors(const clattn_problem *p, struct bench_data *data, struct failure *failure)
{
    for (int id = 0; id < BENCH_TENSORS; id++) {
        const struct bench_extents extents = extents_of(p, (enum bench_tensor)id);
        if (extents.there &&
            tensor_create(&data->tensor[id], extents.type, 4, extents.shape, fields[id].name, failure) != 0) {
            return -1;
        }
    }
    for (int id = 0; id < BENCH_TENSORS; id++) {
        if (data->tensor[id].data && fill(p, data, (enum bench_tensor)id, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- placing them ---- */

int bench_data_buffer(clattn_context *context, const void *content, size_t bytes, cl_mem *buffer,
                      struct failure *failure)
{
    cl_int code = CL_SUCCESS;
    *buffer = clCreateBuffer(clattn_context_cl(context), content ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE,
                             bytes ? bytes : 1, NULL, &code);
    if (code == CL_SUCCESS && bytes && content) {
        code = clEnqueueWriteBuffer(clattn_context_queue(context), *buffer, CL_TRUE, 0, bytes, content, 0, NULL, NULL);
    }
    return code == CL_SUCCESS ? 0 : failure_failed(failure, "%zu bytes on the device: OpenCL error %d", bytes, code);
}

/* Keys or values, a buffer for each part of their pool. */
static int make_pools(const clattn_problem *p, clattn_context *context, struct bench_data *data, enum bench_tensor id,
                      struct failure *failure)
{
    const struct tensor *tensor = &data->tensor[id];
    const size_t page_bytes = p->pages > 0 ? tensor_bytes(tensor) / (size_t)p->pages : 0;
    const char *content = tensor->data;
    int result = 0;
    for (int pool = 0; pool < pools_of(p) && result == 0; pool++) {
        const size_t bytes = page_bytes * (size_t)pools_pages(p->pages, p->pool_pages, pool);
        cl_mem *buffer = pool == 0 ? &data->buffer[id] : &data->more[id - BENCH_KEY][pool - 1];
        result = bench_data_buffer(context, content, bytes, buffer, failure);
        content += bytes;
    }
    return result;
}

static int make_buffers(const clattn_problem *p, clattn_context *context, struct bench_data *data,
                        struct failure *failure)
{
    int result = 0;
    for (int id = 0; id < BENCH_TENSORS && result == 0; id++) {
        const struct tensor *tensor = &data->tensor[id];
        if (tensor->data && (id == BENCH_KEY || id == BENCH_VALUE) && pools_of(p) > 1) {
            result = make_pools(p, context, data, (enum bench_tensor)id, failure);
        } else if (tensor->data) {
            result = bench_data_buffer(context, id < BENCH_OUTPUTS ? tensor->data : NULL, tensor_bytes(tensor),
                                       &data->buffer[id], failure);
        }
    }
    return result;
}

/* An axis of one element serves all: a broadcast one, or one that has no more. */
static void place(const clattn_problem *p, struct bench_data *data, int id)
{
    const struct tensor *tensor = &data->tensor[id];
    clattn_host_tensor *host = (void *)((char *)&data->host + fields[id].host);
    clattn_tensor *device = (void *)((char *)&data->device + fields[id].device);
    if (!tensor->data) {
        return;
    }
    host->data = tensor->data;
    device->buffer = data->buffer[id];
    const int64_t columns = id == BENCH_KEY ? p->head_dim : id == BENCH_VALUE ? p->head_dim_v : tensor->shape[3];
    clattn_strides_bhsd(tensor->shape[1], tensor->shape[2], columns, host->stride);
    for (int axis = 0; axis < 3; axis++) {
        if (tensor->shape[axis] == 1) { /* shared, as page tables by heads */
            host->stride[axis] = 0;
        }
    }
    memcpy(device->stride, host->stride, sizeof host->stride);
}

/* The further buffers begin with their pages; on the host they are one array. */
static void place_pools(const clattn_problem *p, struct bench_data *data)
{
    page_pools_place(p, &data->host);
    for (int pool = 0; pool < pools_of(p) - 1; pool++) {
        data->device.key_pools[pool] = data->device.key;
        data->device.value_pools[pool] = data->device.value;
        data->device.key_pools[pool].buffer = data->more[0][pool];
        data->device.value_pools[pool].buffer = data->more[1][pool];
    }
}

int bench_data_make(const clattn_problem *problem, clattn_context *context, struct bench_data *data,
                    struct failure *failure)
{
    const clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    const clattn_tensors device = CLATTN_TENSORS_INIT;
    memset(data, 0, sizeof *data);
    clattn_call_init(&data->values, sizeof data->values);
    data->host = host;
    data->device = device;
    if (check_memory(problem, failure) != 0 || make_tensors(problem, data, failure) != 0 ||
        make_buffers(problem, context, data, failure) != 0) {
        return -1;
    }
    for (int id = 0; id < BENCH_TENSORS; id++) {
        place(problem, data, id);
    }
    place_pools(problem, data);
    return 0;
}

void bench_data_free(struct bench_data *data)
{
    for (int i = 0; i < USER_TEXT_MOST; i++) {
        if (data->code_buffer[i]) {
            clReleaseMemObject(data->code_buffer[i]);
        }
    }
    if (data->block_buffer) {
        clReleaseMemObject(data->block_buffer);
    }
    user_blocks_free(&data->blocks);
    for (int id = 0; id < BENCH_TENSORS; id++) {
        tensor_free(&data->tensor[id]);
        if (data->buffer[id]) {
            clReleaseMemObject(data->buffer[id]);
        }
    }
    for (int i = 0; i < 6; i++) {
        if (data->more[i / 3][i % 3]) {
            clReleaseMemObject(data->more[i / 3][i % 3]);
        }
    }
}

int bench_data_spoil_outputs(clattn_context *context, struct bench_data *data, struct failure *failure)
{
    for (int id = BENCH_OUTPUTS; id < BENCH_TENSORS; id++) {
        struct tensor *tensor = &data->tensor[id];
        cl_int code = CL_SUCCESS;
        if (!tensor->data || tensor_bytes(tensor) == 0) {
            continue;
        }
        memset(tensor->data, 0xff, tensor_bytes(tensor));
        code = clEnqueueWriteBuffer(clattn_context_queue(context), data->buffer[id], CL_TRUE, 0, tensor_bytes(tensor),
                                    tensor->data, 0, NULL, NULL);
        if (code != CL_SUCCESS) {
            return failure_failed(failure, "writing %s: OpenCL error %d", fields[id].name, code);
        }
    }
    return 0;
}

int bench_data_read_outputs(clattn_context *context, struct bench_data *data, struct failure *failure)
{
    for (int id = BENCH_OUTPUTS; id < BENCH_TENSORS; id++) {
        struct tensor *tensor = &data->tensor[id];
        cl_int code = CL_SUCCESS;
        if (tensor->data && tensor_bytes(tensor) > 0) {
            code = clEnqueueReadBuffer(clattn_context_queue(context), data->buffer[id], CL_TRUE, 0,
                                       tensor_bytes(tensor), tensor->data, 0, NULL, NULL);
        }
        if (code != CL_SUCCESS) {
            return failure_failed(failure, "reading %s: OpenCL error %d", fields[id].name, code);
        }
    }
    return 0;
}

double bench_data_bytes(const struct bench_data *data)
{
    double bytes = 0;
    for (int id = 0; id < BENCH_TENSORS; id++) {
        if (data->tensor[id].data) {
            bytes += (double)tensor_bytes(&data->tensor[id]);
        }
    }
    return bytes;
}
