#define _DEFAULT_SOURCE
#include "bench_data.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- random numbers: SplitMix64 (Steele, Lea and Flood, 2014) and Box-Muller ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_uniform(uint64_t *state)
{
    return ((double)(next_random(state) >> 11) + 0.5) * 0x1p-53;
}

static void fill_normal(struct tensor *tensor, uint64_t seed)
{
    for (int64_t i = 0, n = tensor_count(tensor); i < n; i += 2) {
        double radius = sqrt(-2 * log(next_uniform(&seed)));
        double angle = 6.283185307179586 * next_uniform(&seed);
        tensor_store(tensor, i, radius * cos(angle));
        if (i + 1 < n)
            tensor_store(tensor, i + 1, radius * sin(angle));
    }
}

/* Seven of ten keys may be seen. */
static void fill_mask(struct tensor *tensor, uint64_t seed)
{
    uint8_t *mask = tensor->data;
    for (int64_t i = 0, n = tensor_count(tensor); i < n; i++)
        mask[i] = next_uniform(&seed) < 0.7;
}

/* ---- tensors ---- */

static int make(struct bench_data *data, enum bench_tensor id, enum tensor_type type, int64_t batch,
                int64_t heads, int64_t rows, int64_t columns, struct failure *failure)
{
    static const char *const names[] = {"query", "key", "value", "mask", "out"};
    const int64_t shape[4] = {batch, heads, rows, columns};
    return tensor_create(&data->tensor[id], type, 4, shape, names[id], failure);
}

/* A machine that promises more memory than it has would end the process while the tensors are
 * filled: refuse what is more than it has in all, twice for CPU devices, whose buffers are there
 * too. */
static int check_memory(const clattn_problem *p, struct failure *failure)
{
#ifdef _SC_PHYS_PAGES
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double dims = (double)p->head_dim + (double)p->head_dim_v;
    double rows =
        (double)p->query_heads * (double)p->query_len + (double)p->kv_heads * (double)p->key_len;
    double bytes = (double)p->batch * rows * dims * (double)clattn_type_size(p->type);
    if (p->features & CLATTN_WITH_MASK || p->bias_type != CLATTN_TYPE_NONE)
        bytes += (double)p->query_len * (double)p->key_len *
                 (p->features & CLATTN_WITH_MASK ? 1 : (double)clattn_type_size(p->bias_type));
    if (memory > 0 && 2 * bytes > memory)
        return failure_failed(
            failure,
            "--shape: its tensors take %.3g GB twice, on the host and on the device: "
            "the machine has %.3g GB; take a smaller one",
            bytes * 1e-9, memory * 1e-9);
#else
    (void)p;
    (void)failure;
#endif
    return 0;
}

static int make_tensors(const clattn_problem *p, struct bench_data *data, struct failure *failure)
{
    enum tensor_type type = tensor_type_of_storage(p->type);
    int is_bool = (p->features & CLATTN_WITH_MASK) != 0;
    if (make(data, BENCH_QUERY, type, p->batch, p->query_heads, p->query_len, p->head_dim,
             failure) != 0 ||
        make(data, BENCH_KEY, type, p->batch, p->kv_heads, p->key_len, p->head_dim, failure) != 0 ||
        make(data, BENCH_VALUE, type, p->batch, p->kv_heads, p->key_len, p->head_dim_v, failure) !=
            0 ||
        make(data, BENCH_OUT, type, p->batch, p->query_heads, p->query_len, p->head_dim_v,
             failure) != 0)
        return -1;
    for (int id = BENCH_QUERY; id <= BENCH_VALUE; id++)
        fill_normal(&data->tensor[id], (uint64_t)id + 1);
    if (!is_bool && p->bias_type == CLATTN_TYPE_NONE)
        return 0;
    if (make(data, BENCH_MASK, is_bool ? TENSOR_UINT8 : type, 1, 1, p->query_len, p->key_len,
             failure) != 0)
        return -1;
    if (is_bool)
        fill_mask(&data->tensor[BENCH_MASK], 9);
    else
        fill_normal(&data->tensor[BENCH_MASK], 9);
    return 0;
}

/* ---- placing them ---- */

static int make_buffers(clattn_context *context, struct bench_data *data, struct failure *failure)
{
    for (int id = 0; id < BENCH_TENSORS; id++) {
        struct tensor *tensor = &data->tensor[id];
        size_t bytes = tensor->data ? tensor_bytes(tensor) : 0;
        cl_mem_flags flags = id == BENCH_OUT ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY;
        cl_int code = CL_SUCCESS;
        if (!tensor->data)
            continue;
        data->buffer[id] =
            clCreateBuffer(clattn_context_cl(context), flags, bytes ? bytes : 1, NULL, &code);
        if (code == CL_SUCCESS && bytes && id != BENCH_OUT)
            code = clEnqueueWriteBuffer(clattn_context_queue(context), data->buffer[id], CL_TRUE, 0,
                                        bytes, tensor->data, 0, NULL, NULL);
        if (code != CL_SUCCESS)
            return failure_failed(failure, "%zu bytes on the device: OpenCL error %d", bytes, code);
    }
    return 0;
}

static void place(struct bench_data *data, enum bench_tensor id, clattn_host_tensor *host,
                  clattn_tensor *device)
{
    const struct tensor *tensor = &data->tensor[id];
    int64_t stride[4] = {0, 0, tensor->shape[3], 1};
    if (!tensor->data)
        return;
    if (id != BENCH_MASK)
        clattn_strides_bhsd(tensor->shape[1], tensor->shape[2], tensor->shape[3], stride);
    host->data = tensor->data;
    device->buffer = data->buffer[id];
    memcpy(host->stride, stride, sizeof stride);
    memcpy(device->stride, stride, sizeof stride);
}

int bench_data_make(const clattn_problem *problem, clattn_context *context, struct bench_data *data,
                    struct failure *failure)
{
    const clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    const clattn_tensors device = CLATTN_TENSORS_INIT;
    memset(data, 0, sizeof *data);
    data->host = host;
    data->device = device;
    if (check_memory(problem, failure) != 0 || make_tensors(problem, data, failure) != 0 ||
        make_buffers(context, data, failure) != 0)
        return -1;
    place(data, BENCH_QUERY, &data->host.query, &data->device.query);
    place(data, BENCH_KEY, &data->host.key, &data->device.key);
    place(data, BENCH_VALUE, &data->host.value, &data->device.value);
    place(data, BENCH_OUT, &data->host.out, &data->device.out);
    if (problem->features & CLATTN_WITH_MASK)
        place(data, BENCH_MASK, &data->host.mask, &data->device.mask);
    else
        place(data, BENCH_MASK, &data->host.bias, &data->device.bias);
    return 0;
}

void bench_data_free(struct bench_data *data)
{
    for (int id = 0; id < BENCH_TENSORS; id++) {
        tensor_free(&data->tensor[id]);
        if (data->buffer[id])
            clReleaseMemObject(data->buffer[id]);
    }
}

int bench_data_read_out(clattn_context *context, struct bench_data *data, struct failure *failure)
{
    struct tensor *out = &data->tensor[BENCH_OUT];
    cl_int code = CL_SUCCESS;
    if (tensor_bytes(out) > 0)
        code = clEnqueueReadBuffer(clattn_context_queue(context), data->buffer[BENCH_OUT], CL_TRUE,
                                   0, tensor_bytes(out), out->data, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return failure_failed(failure, "reading the output: OpenCL error %d", code);
    return 0;
}

double bench_data_bytes(const struct bench_data *data)
{
    double bytes = 0;
    for (int id = 0; id < BENCH_TENSORS; id++)
        if (data->tensor[id].data)
            bytes += (double)tensor_bytes(&data->tensor[id]);
    return bytes;
}
