/* Two rows, two columns, all inputs and weights the same few numbers. */
#include "small_layers.h"

#include <string.h>

#define NUMBERS 64

static cl_mem buffer_of(clattn_context *context, size_t bytes)
{
    return clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes, NULL, NULL);
}

int small_layers_create(struct small_layers *layers, clattn_context *context)
{
    static const float zeros[NUMBERS];
    clattn_mha_problem mha = CLATTN_MHA_PROBLEM_INIT;
    clattn_additive_problem additive = CLATTN_ADDITIVE_PROBLEM_INIT;
    memset(layers, 0, sizeof(*layers));
    mha.rows = mha.model_dim = 2;
    mha.query_heads = 1;
    additive.rows = additive.keys = additive.query_dim = additive.hidden_dim = additive.value_dim = 2;
    mha.strategy = additive.strategy = "plain";
    if (clattn_mha_create(context, &mha, &layers->mha) != CLATTN_OK ||
        clattn_additive_create(context, &additive, &layers->additive) != CLATTN_OK) {
        return 0;
    }
    const size_t bytes[2] = { clattn_mha_workspace(layers->mha), clattn_additive_workspace(layers->additive) };
    layers->numbers = buffer_of(context, sizeof(zeros));
    layers->results = buffer_of(context, sizeof(zeros));
    layers->workspace = buffer_of(context, bytes[0] > bytes[1] ? bytes[0] : bytes[1]);
    return layers->numbers && layers->results && layers->workspace &&
           clEnqueueWriteBuffer(clattn_context_queue(context), layers->numbers, CL_TRUE, 0, sizeof(zeros), zeros, 0,
                                NULL, NULL) == CL_SUCCESS;
}

void small_layers_release(struct small_layers *layers)
{
    const cl_mem buffers[] = { layers->numbers, layers->results, layers->workspace };
    clattn_mha_destroy(layers->mha);
    clattn_additive_destroy(layers->additive);
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
}

clattn_status small_layers_mha(const struct small_layers *layers, cl_command_queue queue, cl_event *done)
{
    clattn_mha_arrays arrays = CLATTN_MHA_ARRAYS_INIT;
    const clattn_array from = { layers->numbers, 0 }, to = { layers->results, 0 };
    arrays.x = arrays.wq = arrays.wk = arrays.wv = arrays.wo = from;
    arrays.y = to;
    arrays.workspace = layers->workspace;
    return clattn_mha_enqueue(layers->mha, queue, &arrays, 0, NULL, done);
}

clattn_status small_layers_additive(const struct small_layers *layers, cl_command_queue queue, cl_event *done)
{
    clattn_additive_arrays arrays = CLATTN_ADDITIVE_ARRAYS_INIT;
    const clattn_array from = { layers->numbers, 0 }, to = { layers->results, 0 };
    arrays.query = arrays.key = arrays.value = arrays.wq = arrays.wk = arrays.score = from;
    arrays.out = to;
    arrays.workspace = layers->workspace;
    return clattn_additive_enqueue(layers->additive, queue, &arrays, 0, NULL, done);
}
