/* A whole attention layer: y = attention(x Wq^T + bq, x Wk^T + bk, x Wv^T + bv) Wo^T. Weights stay on the device; each
 * call brings an x. Wq, Wk and Wv lie below each other, as PyTorch's in_proj_weight: one multiply makes all three. Then
 * the gradients of one call, from those of a loss at y. */
#include <clattn_layers.h>

#include "example.h"

enum { ROWS = 6, MODEL = 32, HEADS = 2, CALLS = 2 };

static void train(clattn_context *context, const clattn_mha_backward_problem *backward,
                  const clattn_mha_host_arrays *arrays)
{
    float dy[ROWS * MODEL], dx[ROWS * MODEL], dwo[MODEL * MODEL], right_dx[ROWS * MODEL], right_dwo[MODEL * MODEL];
    fill(dy, COUNT(dy), 20);
    clattn_mha_host_gradients gradients = CLATTN_MHA_HOST_GRADIENTS_INIT;
    gradients.dy = dy;
    gradients.dx = dx;
    gradients.dwo = dwo;
    must(clattn_mha_backward_host(context, backward, arrays, &gradients));

    gradients.dx = right_dx;
    gradients.dwo = right_dwo;
    must(clattn_mha_backward_reference(backward, arrays, &gradients));
    compare("dx", dx, right_dx, COUNT(dx), 1e-3);
    compare("dwo", dwo, right_dwo, COUNT(dwo), 1e-3);
}

int main(void)
{
    float x[ROWS * MODEL], y[ROWS * MODEL], right[ROWS * MODEL];
    float in_weights[3 * MODEL * MODEL], in_biases[3 * MODEL], out_weights[MODEL * MODEL];
    fill(in_weights, COUNT(in_weights), 1);
    fill(in_biases, COUNT(in_biases), 2);
    fill(out_weights, COUNT(out_weights), 3);

    clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    problem.rows = ROWS;
    problem.model_dim = MODEL;
    problem.query_heads = HEADS; /* head_dim: MODEL / HEADS */
    problem.parts = CLATTN_MHA_PACKED | CLATTN_MHA_BIAS_QUERY | CLATTN_MHA_BIAS_KEY | CLATTN_MHA_BIAS_VALUE;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT;
    clattn_mha_backward_problem backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    backward.forward = &problem;
    backward.gradients = CLATTN_MHA_GRADIENT_X | CLATTN_MHA_GRADIENT_WO;

    clattn_context *context;
    clattn_mha *layer;
    must(clattn_context_open(NULL, NULL, &context));
    must(clattn_mha_create(context, &problem, &layer));

    clattn_mha_arrays arrays = CLATTN_MHA_ARRAYS_INIT;
    arrays.wq.buffer = device_buffer(context, sizeof(in_weights), in_weights);
    arrays.bq.buffer = device_buffer(context, sizeof(in_biases), in_biases);
    arrays.wo.buffer = device_buffer(context, sizeof(out_weights), out_weights);
    arrays.x.buffer = device_buffer(context, sizeof(x), NULL);
    arrays.y.buffer = device_buffer(context, sizeof(y), NULL);
    arrays.workspace = device_buffer(context, clattn_mha_workspace(layer), NULL);

    clattn_mha_host_arrays host = CLATTN_MHA_HOST_ARRAYS_INIT;
    host.wq = in_weights;
    host.bq = in_biases;
    host.wo = out_weights;
    host.x = x;
    host.y = right;

    const cl_command_queue queue = clattn_context_queue(context);
    for (uint32_t call = 0; call < CALLS; ++call) {
        fill(x, COUNT(x), 10 + call);
        must_cl(clEnqueueWriteBuffer(queue, arrays.x.buffer, CL_FALSE, 0, sizeof(x), x, 0, NULL, NULL));
        must(clattn_mha_enqueue(layer, queue, &arrays, 0, NULL, NULL));
        read_buffer(queue, arrays.y.buffer, sizeof(y), y, 0, NULL);
        must(clattn_mha_reference(&problem, &host));
        compare("y", y, right, COUNT(y), 1e-3); /* of numbers of size 50 */
    }

    train(context, &backward, &host);

    const cl_mem buffers[] = { arrays.wq.buffer, arrays.bq.buffer, arrays.wo.buffer,
                               arrays.x.buffer,  arrays.y.buffer,  arrays.workspace };
    for (size_t i = 0; i < COUNT(buffers); ++i) {
        clReleaseMemObject(buffers[i]);
    }
    clattn_mha_destroy(layer);
    clattn_context_destroy(context);
    return 0;
}
