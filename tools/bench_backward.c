#include "bench_backward.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "bench_call.h"
#include "bench_pairs.h"
#include "check_gradients.h"
#include "check_part.h"
#include "library.h"

#define CHECK_WHOLE 1e8 /* multiplications of a whole check; above, a few rows and keys */

/* ---- tensors ---- */

#define FIELD(name) offsetof(clattn_host_gradients, name), offsetof(clattn_gradients, name)
static const struct {
    const char *name;
    size_t host, device;
} fields[BENCH_GRADIENTS] = {
    [BENCH_DOUT] = { "dout", FIELD(dout) },
    [BENCH_DQUERY] = { "dquery", FIELD(dquery) },
    [BENCH_DKEY] = { "dkey", FIELD(dkey) },
    [BENCH_DVALUE] = { "dvalue", FIELD(dvalue) },
};
#undef FIELD

static int make_tensor(const clattn_problem *p, struct bench_backward *b, int id, struct failure *failure)
{
    const int64_t shapes[BENCH_GRADIENTS][4] = {
        [BENCH_DOUT] = { p->batch, p->query_heads, p->query_len, p->head_dim_v },
        [BENCH_DQUERY] = { p->batch, p->query_heads, p->query_len, p->head_dim },
        [BENCH_DKEY] = { p->batch, p->kv_heads, p->key_len, p->head_dim },
        [BENCH_DVALUE] = { p->batch, p->kv_heads, p->key_len, p->head_dim_v },
    };
    clattn_host_tensor *host = (void *)((char *)&b->host + fields[id].host);
    const int64_t *shape = shapes[id];
    if (tensor_create(&b->tensor[id], tensor_type_of_storage(p->type), 4, shape, fields[id].name, failure) != 0) {
        return -1;
    }
    if (id == BENCH_DOUT) {
        bench_data_fill_normal(&b->tensor[id], 11);
    }
    host->data = b->tensor[id].data;
    clattn_strides_bhsd(shape[1], shape[2], shape[3], host->stride);
    return 0;
}

static int make_buffer(clattn_context *context, struct bench_backward *b, int id, struct failure *failure)
{
    const clattn_host_tensor *host = (const void *)((const char *)&b->host + fields[id].host);
    clattn_tensor *device = (void *)((char *)&b->device + fields[id].device);
    const size_t bytes = tensor_bytes(&b->tensor[id]);
    cl_int code;
    b->buffer[id] = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
    if (code == CL_SUCCESS && bytes && id == BENCH_DOUT) {
        code = clEnqueueWriteBuffer(clattn_context_queue(context), b->buffer[id], CL_TRUE, 0, bytes, b->tensor[id].data,
                                    0, NULL, NULL);
    }
    if (code != CL_SUCCESS) {
        return failure_failed(failure, "%zu bytes on the device: OpenCL error %d", bytes, code);
    }
    device->buffer = b->buffer[id];
    memcpy(device->stride, host->stride, sizeof device->stride);
    return 0;
}

int bench_backward_make(const struct options *options, const clattn_problem *forward, const char *strategy,
                        clattn_context *context, struct bench_backward *b, struct failure *failure)
{
    const clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    const clattn_host_gradients host = CLATTN_HOST_GRADIENTS_INIT;
    const clattn_gradients device = CLATTN_GRADIENTS_INIT;
    memset(b, 0, sizeof *b);
    b->problem = problem;
    b->problem.forward = forward;
    b->problem.strategy = strategy;
    b->problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    b->host = host;
    b->device = device;
    const clattn_status status = clattn_backward_plan_create(context, &b->problem, &b->plan);
    if (status != CLATTN_OK) {
        return library_failure(options, status, failure);
    }
    for (int id = 0; id < BENCH_GRADIENTS; id++) {
        if (make_tensor(forward, b, id, failure) != 0 || make_buffer(context, b, id, failure) != 0) {
            return -1;
        }
    }
    return bench_workspace_make(b->plan, context, &b->device.workspace, failure);
}

void bench_backward_free(struct bench_backward *b)
{
    clattn_plan_destroy(b->plan);
    for (int id = 0; id < BENCH_GRADIENTS; id++) {
        tensor_free(&b->tensor[id]);
        if (b->buffer[id]) {
            clReleaseMemObject(b->buffer[id]);
        }
    }
    if (b->device.workspace) {
        clReleaseMemObject(b->device.workspace);
    }
}

/* ---- a call ---- */

int bench_backward_call(const struct options *options, const struct bench_backward *b, const clattn_plan *forward,
                        cl_command_queue queue, const struct bench_data *data, struct failure *failure)
{
    cl_event before = NULL;
    clattn_status status =
        forward ? clattn_enqueue_forward(forward, queue, &data->values, &data->device, 0, NULL, &before) : CLATTN_OK;
    if (status == CLATTN_OK) {
        status = clattn_enqueue_backward(b->plan, queue, &data->values, &data->device, &b->device, before ? 1 : 0,
                                         before ? &before : NULL, NULL);
    }
    if (before) {
        clReleaseEvent(before);
    }
    return status == CLATTN_OK ? bench_finish(queue, failure) : library_failure(options, status, failure);
}

double bench_backward_operations(const clattn_problem *p)
{
    return 2 * (double)p->query_heads * bench_visible_pairs(p) * (double)(3 * p->head_dim + 2 * p->head_dim_v);
}

/* ---- checking ---- */

static int read_outputs(const struct bench_backward *b, clattn_context *context, struct failure *failure)
{
    for (int id = BENCH_DQUERY; id < BENCH_GRADIENTS; id++) {
        const size_t bytes = tensor_bytes(&b->tensor[id]);
        const cl_int code = bytes ? clEnqueueReadBuffer(clattn_context_queue(context), b->buffer[id], CL_TRUE, 0, bytes,
                                                        b->tensor[id].data, 0, NULL, NULL)
                                  : CL_SUCCESS;
        if (code != CL_SUCCESS) {
            return failure_failed(failure, "reading %s: OpenCL error %d", fields[id].name, code);
        }
    }
    return 0;
}

static void move(clattn_host_tensor *tensor, int64_t b, int64_t i, int64_t j)
{
    tensor->offset += b * tensor->stride[0] + i * tensor->stride[2] + j * tensor->stride[3];
}

/* One row of a batch entry with all of its keys, or, with `of_key`, one key with all rows: out and lse are those of
 * more keys, which a backward pass may have. */
static int check_part(const struct bench_backward *backward, const struct bench_data *data, int64_t b, int of_key,
                      int64_t at, struct gradient_check *found, struct failure *failure)
{
    const clattn_problem *whole = backward->problem.forward;
    const int64_t length = bench_key_length(whole, b), i = of_key ? 0 : at, j = of_key ? at : 0;
    const struct check_part part = { i, of_key ? whole->query_len : 1, j, of_key ? 1 : length };
    int32_t offset;
    clattn_problem p = check_part_problem(whole, length, &part, &offset);
    clattn_backward_problem problem = backward->problem;
    clattn_host_tensors t = data->host;
    clattn_host_gradients g = backward->host;
    problem.forward = &p;
    problem.gradients = of_key ? CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE : CLATTN_GRADIENT_QUERY;
    p.features &= ~(uint32_t)CLATTN_WITH_KEY_LENGTHS;
    if (p.alignment != CLATTN_ALIGN_UNSET) {
        t.query_offsets.data = &offset;
    }
    clattn_host_tensor *const rows[] = { &t.query, &t.out, &t.lse, &g.dout, &g.dquery };
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        move(rows[n], b, i, 0);
    }
    clattn_host_tensor *const keys[] = { &t.key, &t.value, &g.dkey, &g.dvalue };
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) {
        move(keys[n], b, j, 0);
    }
    move(&t.mask, b, i, j);
    move(&t.bias, b, i, j);
    move(&t.slopes, b, 0, 0);
    t.key_lengths.data = NULL;
    g.dquery.data = of_key ? NULL : g.dquery.data;
    g.dkey.data = of_key ? g.dkey.data : NULL;
    g.dvalue.data = of_key ? g.dvalue.data : NULL;
    return check_gradients(&problem, NULL, &t, &g, backward->plan, found, failure);
}

static int check_samples(const struct bench_backward *backward, const struct bench_data *data,
                         struct gradient_check *found, struct failure *failure)
{
    const clattn_problem *p = backward->problem.forward;
    for (int n = 0; n < CHECK_SAMPLES; n++) {
        const int64_t b = check_sample(n, p->batch), keys = bench_key_length(p, b);
        if (keys == 0 || p->query_len == 0) {
            continue;
        }
        for (int m = 0; m < CHECK_SAMPLES; m++) {
            if (check_part(backward, data, b, 0, check_sample(m, p->query_len), found, failure) != 0 ||
                check_part(backward, data, b, 1, check_sample(m, keys), found, failure) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

int bench_backward_check(struct bench_backward *b, clattn_context *context, const struct bench_data *data,
                         double *share, struct failure *failure)
{
    struct gradient_check found[GRADIENT_KINDS] = { { 0, 0, 0 } };
    const clattn_problem *p = b->problem.forward;
    const double whole = bench_visible_pairs(p) * (double)p->query_heads * (double)(p->head_dim + p->head_dim_v);
    if (read_outputs(b, context, failure) != 0) {
        return -1;
    }
    const int result = p->batch == 0 ? 0
                       : whole > CHECK_WHOLE
                           ? check_samples(b, data, found, failure)
                           : check_gradients(&b->problem, NULL, &data->host, &b->host, b->plan, found, failure);
    *share = fmax(*share, check_gradients_share(found));
    return result;
}
