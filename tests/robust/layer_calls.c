/* Two rows, two columns, all inputs and weights the same few numbers. */
#include "layer_calls.h"

#include <string.h>

#define NUMBERS 64

static cl_mem buffer_of(clattn_context *context, size_t bytes)
{
    return clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes, NULL, NULL);
}

int layer_calls_create(struct layer_calls *layers, clattn_context *context)
{
    static const float zeros[NUMBERS];
    clattn_mha_problem mha = CLATTN_MHA_PROBLEM_INIT;
    clattn_additive_problem additive = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_problem attention = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_mha_backward_problem mha_backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_additive_backward_problem additive_backward = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    memset(layers, 0, sizeof(*layers));
    attention.query_len = attention.key_len = attention.head_dim = 2;
    backward.forward = &attention;
    backward.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_VALUE;
    mha.rows = mha.model_dim = 2;
    mha.query_heads = 1;
    additive.rows = additive.keys = additive.query_dim = additive.hidden_dim = additive.value_dim = 2;
    mha.strategy = additive.strategy = backward.strategy = mha_backward.strategy = "plain";
    additive_backward.strategy = "plain";
    mha_backward.forward = &mha;
    mha_backward.gradients = CLATTN_MHA_GRADIENT_X | CLATTN_MHA_GRADIENT_WQ | CLATTN_MHA_GRADIENT_WO;
    additive_backward.forward = &additive;
    additive_backward.gradients = CLATTN_ADDITIVE_GRADIENT_VALUE | CLATTN_ADDITIVE_GRADIENT_WK |
                                  CLATTN_ADDITIVE_GRADIENT_SCORE;
    if (clattn_mha_create(context, &mha, &layers->mha) != CLATTN_OK ||
        clattn_additive_create(context, &additive, &layers->additive) != CLATTN_OK ||
        clattn_backward_plan_create(context, &backward, &layers->backward) != CLATTN_OK ||
        clattn_mha_backward_create(context, &mha_backward, &layers->mha_backward) != CLATTN_OK ||
        clattn_additive_backward_create(context, &additive_backward, &layers->additive_backward) != CLATTN_OK) {
        return 0;
    }
    const size_t bytes[] = { clattn_mha_workspace(layers->mha), clattn_additive_workspace(layers->additive),
                             clattn_plan_workspace(layers->backward),
                             clattn_mha_backward_workspace(layers->mha_backward),
                             clattn_additive_backward_workspace(layers->additive_backward) };
    size_t most = 0;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); ++i) {
        most = bytes[i] > most ? bytes[i] : most;
    }
    layers->numbers = buffer_of(context, sizeof(zeros));
    layers->results = buffer_of(context, sizeof(zeros));
    layers->workspace = buffer_of(context, most);
    return layers->numbers && layers->results && layers->workspace &&
           clEnqueueWriteBuffer(clattn_context_queue(context), layers->numbers, CL_TRUE, 0, sizeof(zeros), zeros, 0,
                                NULL, NULL) == CL_SUCCESS;
}

void layer_calls_release(struct layer_calls *layers)
{
    const cl_mem buffers[] = { layers->numbers, layers->results, layers->workspace };
    clattn_mha_destroy(layers->mha);
    clattn_additive_destroy(layers->additive);
    clattn_plan_destroy(layers->backward);
    clattn_mha_backward_destroy(layers->mha_backward);
    clattn_additive_backward_destroy(layers->additive_backward);
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
}

clattn_status layer_calls_mha(const struct layer_calls *layers, cl_command_queue queue, cl_event *done)
{
    clattn_mha_arrays arrays = CLATTN_MHA_ARRAYS_INIT;
    const clattn_array from = { layers->numbers, 0 }, to = { layers->results, 0 };
    arrays.x = arrays.wq = arrays.wk = arrays.wv = arrays.wo = from;
    arrays.y = to;
    arrays.workspace = layers->workspace;
    return clattn_mha_enqueue(layers->mha, queue, &arrays, 0, NULL, done);
}

clattn_status layer_calls_additive(const struct layer_calls *layers, cl_command_queue queue, cl_event *done)
{
    clattn_additive_arrays arrays = CLATTN_ADDITIVE_ARRAYS_INIT;
    const clattn_array from = { layers->numbers, 0 }, to = { layers->results, 0 };
    arrays.query = arrays.key = arrays.value = arrays.wq = arrays.wk = arrays.score = from;
    arrays.out = to;
    arrays.workspace = layers->workspace;
    return clattn_additive_enqueue(layers->additive, queue, &arrays, 0, NULL, done);
}

clattn_status layer_calls_backward(const struct layer_calls *layers, cl_command_queue queue, cl_event *done)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_gradients gradients = CLATTN_GRADIENTS_INIT;
    tensors.query = tensors.key = tensors.value = tensors.out = clattn_tensor_bhsd(layers->numbers, 1, 2, 2);
    tensors.lse = clattn_tensor_bhsd(layers->numbers, 1, 2, 1);
    gradients.dout = tensors.out;
    gradients.dquery = gradients.dvalue = clattn_tensor_bhsd(layers->results, 1, 2, 2);
    gradients.dvalue.offset = 4;
    gradients.workspace = layers->workspace;
    return clattn_enqueue_backward(layers->backward, queue, NULL, &tensors, &gradients, 0, NULL, done);
}

clattn_status layer_calls_mha_backward(const struct layer_calls *layers, cl_command_queue queue, cl_event *done)
{
    clattn_mha_arrays arrays = CLATTN_MHA_ARRAYS_INIT;
    clattn_mha_gradients gradients = CLATTN_MHA_GRADIENTS_INIT;
    const clattn_array from = { layers->numbers, 0 };
    arrays.x = arrays.wq = arrays.wk = arrays.wv = arrays.wo = gradients.dy = from;
    gradients.dx = (clattn_array){ layers->results, 0 };
    gradients.dwq = (clattn_array){ layers->results, 4 };
    gradients.dwo = (clattn_array){ layers->results, 8 };
    gradients.workspace = layers->workspace;
    return clattn_mha_backward_enqueue(layers->mha_backward, queue, &arrays, &gradients, 0, NULL, done);
}

clattn_status layer_calls_additive_backward(const struct layer_calls *layers, cl_command_queue queue, cl_event *done)
{
    clattn_additive_arrays arrays = CLATTN_ADDITIVE_ARRAYS_INIT;
    clattn_additive_gradients gradients = CLATTN_ADDITIVE_GRADIENTS_INIT;
    const clattn_array from = { layers->numbers, 0 };
    arrays.query = arrays.key = arrays.value = arrays.wq = arrays.wk = arrays.score = gradients.dout = from;
    gradients.dvalue = (clattn_array){ layers->results, 0 };
    gradients.dwk = (clattn_array){ layers->results, 4 };
    gradients.dscore = (clattn_array){ layers->results, 8 };
    gradients.workspace = layers->workspace;
    return clattn_additive_backward_enqueue(layers->additive_backward, queue, &arrays, &gradients, 0, NULL, done);
}
