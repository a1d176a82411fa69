#include "attend.h"

#include <stdlib.h>
#include <string.h>

static clattn_host_tensor dense(const void *data, int64_t rows, int64_t columns)
{
    clattn_host_tensor tensor = CLATTN_TENSOR_NONE;
    memcpy(&tensor.data, &data, sizeof(data)); /* inputs are only read */
    clattn_strides_bhsd(1, rows, columns, tensor.stride);
    return tensor;
}

clattn_status attend(struct lesson_run *run, const struct attend *call)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    float *zeros = NULL, *ignored = NULL;
    problem.batch = call->batch;
    problem.query_len = call->rows;
    problem.key_len = call->keys;
    problem.head_dim = call->dim;
    problem.head_dim_v = call->value ? call->dim_v : 1;
    problem.weights = call->weights ? call->mode : CLATTN_WEIGHTS_NONE;
    problem.causal = call->causal;
    problem.code = call->code;
    problem.alignment = call->causal ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_UNSET;
    problem.features = call->key_lengths ? CLATTN_WITH_KEY_LENGTHS : 0;
    if (!call->value) {
        zeros = calloc((size_t)(call->batch * call->keys), sizeof(*zeros));
        ignored = malloc((size_t)(call->batch * call->rows) * sizeof(*ignored));
        if (!zeros || !ignored) {
            free(zeros);
            free(ignored);
            return CLATTN_OUT_OF_HOST_MEMORY;
        }
    }
    tensors.query = dense(call->query, call->rows, call->dim);
    tensors.key = dense(call->key, call->keys, call->dim);
    tensors.value = dense(call->value ? call->value : zeros, call->keys, problem.head_dim_v);
    tensors.out = dense(call->value ? call->out : ignored, call->rows, problem.head_dim_v);
    if (call->weights) {
        tensors.weights = dense(call->weights, call->rows, call->keys);
    }
    if (call->key_lengths) {
        tensors.key_lengths = dense(call->key_lengths, 1, 1);
    }
    values.has_scale = 1;
    values.scale = call->scale;
    const clattn_status status = clattn_forward_host(run->context, &problem, &values, &tensors);
    free(zeros);
    free(ignored);
    return status;
}
