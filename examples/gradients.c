/* Training needs the other direction: from the derivative of a loss at out to its derivatives at query, key and value.
 * The forward pass keeps lse beside out, and clattn_enqueue_backward needs nothing more of it. Here the loss is
 * half the sum of (out - target)^2, whose derivative at out is out - target. A step against the gradients makes it
 * smaller, and the gradients are compared with the reference's. */
#include <clattn_backward.h>

#include "example.h"

enum { HEADS = 4, KV_HEADS = 2, ROWS = 32, DIM = 16, SIZE = HEADS * ROWS * DIM, KV_SIZE = KV_HEADS * ROWS * DIM };

struct arrays {
    float query[SIZE], key[KV_SIZE], value[KV_SIZE], out[SIZE], lse[HEADS * ROWS], dout[SIZE];
    float dquery[SIZE], dkey[KV_SIZE], dvalue[KV_SIZE];
};

static clattn_host_tensors forward_tensors(struct arrays *a)
{
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = clattn_host_tensor_bhsd(a->query, HEADS, ROWS, DIM);
    tensors.key = clattn_host_tensor_bhsd(a->key, KV_HEADS, ROWS, DIM);
    tensors.value = clattn_host_tensor_bhsd(a->value, KV_HEADS, ROWS, DIM);
    tensors.out = clattn_host_tensor_bhsd(a->out, HEADS, ROWS, DIM);
    tensors.lse = clattn_host_tensor_bhsd(a->lse, HEADS, ROWS, 1);
    return tensors;
}

static clattn_host_gradients gradients_of(struct arrays *a)
{
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    gradients.dout = clattn_host_tensor_bhsd(a->dout, HEADS, ROWS, DIM);
    gradients.dquery = clattn_host_tensor_bhsd(a->dquery, HEADS, ROWS, DIM);
    gradients.dkey = clattn_host_tensor_bhsd(a->dkey, KV_HEADS, ROWS, DIM);
    gradients.dvalue = clattn_host_tensor_bhsd(a->dvalue, KV_HEADS, ROWS, DIM);
    return gradients;
}

/* The loss, and its derivative at out. */
static double loss_of(struct arrays *a, const float *target)
{
    double loss = 0;
    for (int i = 0; i < SIZE; ++i) {
        a->dout[i] = a->out[i] - target[i];
        loss += 0.5 * (double)a->dout[i] * (double)a->dout[i];
    }
    return loss;
}

static void step(float *values, const float *gradient, int count)
{
    for (int i = 0; i < count; ++i) {
        values[i] -= 0.1f * gradient[i];
    }
}

int main(void)
{
    static struct arrays a, right;
    static float target[SIZE];
    fill(a.query, SIZE, 1);
    fill(a.key, KV_SIZE, 2);
    fill(a.value, KV_SIZE, 3);
    fill(target, SIZE, 4);

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    forward.query_heads = HEADS;
    forward.kv_heads = KV_HEADS;
    forward.query_len = forward.key_len = ROWS;
    forward.head_dim = DIM;
    forward.causal = 1;
    forward.alignment = CLATTN_ALIGN_TOP_LEFT;
    forward.features = CLATTN_WITH_LSE; /* what the backward pass asks of the forward one */

    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    backward.forward = &forward;
    backward.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;

    const clattn_host_tensors tensors = forward_tensors(&a);
    const clattn_host_gradients gradients = gradients_of(&a);
    double first = 0, last = 0;
    for (int n = 0; n < 20; ++n) {
        must(clattn_forward_host(context, &forward, NULL, &tensors));
        last = loss_of(&a, target);
        first = n == 0 ? last : first;
        must(clattn_backward_host(context, &backward, NULL, &tensors, &gradients));
        if (n == 0) {
            right = a;
            const clattn_host_tensors copy = forward_tensors(&right);
            const clattn_host_gradients of_copy = gradients_of(&right);
            must(clattn_reference_backward(&backward, NULL, &copy, &of_copy));
            compare("dquery", a.dquery, right.dquery, SIZE, 1e-5);
            compare("dkey", a.dkey, right.dkey, KV_SIZE, 1e-5);
            compare("dvalue", a.dvalue, right.dvalue, KV_SIZE, 1e-5);
        }
        step(a.query, a.dquery, SIZE);
        step(a.key, a.dkey, KV_SIZE);
        step(a.value, a.dvalue, KV_SIZE);
    }
    printf("loss: %.1f at first, %.1f after 20 steps\n", first, last);
    clattn_context_destroy(context);
    return last < first ? 0 : 1;
}
