/* Buffers, launch and download for one kernel. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Twins of cl/pair/hidden.clh. */
#define HIDDEN_LOGIT_FLOAT 0x7fc06869u
#define HIDDEN_LOGIT_DOUBLE 0x7ff8000000686964u

int64_t score_index(const struct kernel_run *run, int64_t plane, int64_t i, int64_t j)
{
    return (plane - run->chunk.first_plane) * run->chunk.plane_stride +
           (i - run->chunk.first_row) * run->chunk.row_stride + j;
}

double score_get(const struct kernel_run *run, int64_t index)
{
    return run->is_double ? ((const double *)run->scores)[index] : (double)((const float *)run->scores)[index];
}

void score_set(struct kernel_run *run, int64_t index, double value)
{
    if (run->is_double) {
        ((double *)run->scores)[index] = value;
    } else {
        ((float *)run->scores)[index] = (float)value;
    }
}

void score_hide_logit(struct kernel_run *run, int64_t index)
{
    if (run->is_double) {
        ((uint64_t *)run->scores)[index] = HIDDEN_LOGIT_DOUBLE;
    } else {
        ((uint32_t *)run->scores)[index] = HIDDEN_LOGIT_FLOAT;
    }
}

int score_is_hidden_logit(const struct kernel_run *run, int64_t index)
{
    return run->is_double ? ((const uint64_t *)run->scores)[index] == HIDDEN_LOGIT_DOUBLE
                          : ((const uint32_t *)run->scores)[index] == HIDDEN_LOGIT_FLOAT;
}

static size_t score_bytes(const struct kernel_run *run)
{
    return (size_t)run->score_count * (run->is_double ? 8 : 4);
}

static cl_mem make_buffer(const struct kernel_run *run, size_t bytes)
{
    cl_int code;
    cl_mem buffer = clCreateBuffer(run->context->cl, CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
    return code == CL_SUCCESS ? buffer : NULL;
}

static void choose_chunk(struct kernel_run *run, struct random *random)
{
    const int64_t planes = (int64_t)run->given.params.batch * run->given.params.query_heads;
    const int64_t first_plane = random_between(random, 0, planes - 1);
    const int64_t first_row = random_between(random, 0, run->given.params.query_len - 1);
    memset(&run->chunk, 0, sizeof(run->chunk));
    run->chunk.first_plane = (int)first_plane;
    run->chunk.planes = (int)random_between(random, 1, planes - first_plane);
    run->chunk.first_row = (int)first_row;
    run->chunk.rows = (int)random_between(random, 1, run->given.params.query_len - first_row);
    run->chunk.row_stride = (run->given.params.key_len + STAGED_ROW_ALIGNMENT - 1) / STAGED_ROW_ALIGNMENT *
                            STAGED_ROW_ALIGNMENT;
    run->chunk.plane_stride = run->chunk.row_stride * run->chunk.rows;
    run->score_count = run->chunk.plane_stride * run->chunk.planes;
}

int kernel_run_begin(struct kernel_run *run, clattn_context *context, struct test_call *test, struct random *random)
{
    memset(run, 0, sizeof(*run));
    run->context = context;
    run->test = test;
    run->call = test->call;
    run->is_double = test->checked.p.type == CLATTN_FLOAT64;
    run->given.operands = &run->call.operands;
    run->given.tensors = forward_tensors(CLATTN_TAKES_ALL);
    run->given.params_bytes = params_fill(&test->checked, &test->call, CLATTN_TAKES_ALL, &run->given.params);
    if (run->given.params.batch == 0 || run->given.params.query_heads == 0 || run->given.params.query_len == 0 ||
        run->given.params.key_len == 0) {
        return 0;
    }
    choose_chunk(run, random);
    run->scores = malloc(score_bytes(run));
    run->scores_buffer = make_buffer(run, score_bytes(run));
    if (run->scores) {
        memset(run->scores, 0xff, score_bytes(run));
    }
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const struct test_array *array = &test->arrays[id];
        run->buffers[id] = array->data ? make_buffer(run, (size_t)array->count * array->element_bytes) : NULL;
    }
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        run->call.operands.tensor[id].buffer =
            test_call_has(test, (enum tensor_id)id) ? run->buffers[test->array_of[id]] : NULL;
    }
    return 1;
}

void kernel_run_end(struct kernel_run *run)
{
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        if (run->buffers[id]) {
            clReleaseMemObject(run->buffers[id]);
        }
    }
    if (run->scores_buffer) {
        clReleaseMemObject(run->scores_buffer);
    }
    free(run->scores);
}

/* All arrays and the scores to the device, or what a kernel may have written back. */
static cl_int transfer(struct kernel_run *run, int download)
{
    cl_command_queue queue = run->context->queue;
    cl_int code =
        download
            ? clEnqueueReadBuffer(queue, run->scores_buffer, CL_TRUE, 0, score_bytes(run), run->scores, 0, NULL, NULL)
            : clEnqueueWriteBuffer(queue, run->scores_buffer, CL_TRUE, 0, score_bytes(run), run->scores, 0, NULL, NULL);
    for (int id = 0; id < TENSOR_COUNT && code == CL_SUCCESS; ++id) {
        const struct test_array *array = &run->test->arrays[id];
        const size_t bytes = (size_t)array->count * array->element_bytes;
        if (!run->buffers[id] || bytes == 0) {
            continue;
        }
        if (!download) {
            code = clEnqueueWriteBuffer(queue, run->buffers[id], CL_TRUE, 0, bytes, array->data, 0, NULL, NULL);
        } else if (forward_is_output(id)) {
            code = clEnqueueReadBuffer(queue, run->buffers[id], CL_TRUE, 0, bytes, array->data, 0, NULL, NULL);
        }
    }
    return code;
}

clattn_status kernel_run_launch(struct kernel_run *run, struct kernel *kernel, const size_t global[3],
                                const size_t local[3])
{
    struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 2];
    const size_t count = attention_arguments(&run->given, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(run->chunk);
    arguments[count + 1] = (struct launch_argument)ARGUMENT(run->scores_buffer);
    struct chain chain;
    if (transfer(run, 0) != CL_SUCCESS) {
        return CLATTN_OPENCL_ERROR;
    }
    clattn_status status = chain_begin(&chain, run->context->queue, 0, NULL, NULL);
    if (status == CLATTN_OK) {
        status = launch(&chain, kernel, 3, global, local, count + 2, arguments);
        status = chain_end(&chain, status);
    }
    return status == CLATTN_OK && transfer(run, 1) != CL_SUCCESS ? CLATTN_OPENCL_ERROR : status;
}
