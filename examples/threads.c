/* One context and one plan, used by several threads at once. What a thread needs of its own is a queue and a workspace,
 * since no two calls in flight may share one. */
#include <pthread.h>

#include "example.h"

enum { HEADS = 2, ROWS = 8, DIM = 16, ELEMENTS = HEADS * ROWS * DIM, THREADS = 3, CALLS = 4 };

static clattn_context *context;
static clattn_plan *plan;
static clattn_problem problem = CLATTN_PROBLEM_INIT;

static void *serve(void *number)
{
    float values[3][ELEMENTS], out[ELEMENTS], right[ELEMENTS];
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_tensor *const inputs[3] = { &tensors.query, &tensors.key, &tensors.value };
    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    clattn_host_tensor *const host_inputs[3] = { &host.query, &host.key, &host.value };
    cl_int error;
    const cl_command_queue queue =
        clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), 0, &error);
    must_cl(error);
    for (int i = 0; i < 3; ++i) {
        fill(values[i], ELEMENTS, *(const uint32_t *)number * 3 + (uint32_t)i);
        *inputs[i] = clattn_tensor_bhsd(device_buffer(context, sizeof(values[i]), values[i]), HEADS, ROWS, DIM);
        *host_inputs[i] = clattn_host_tensor_bhsd(values[i], HEADS, ROWS, DIM);
    }
    tensors.out = clattn_tensor_bhsd(device_buffer(context, sizeof(out), NULL), HEADS, ROWS, DIM);
    tensors.workspace = device_buffer(context, clattn_plan_workspace(plan), NULL);
    host.out = clattn_host_tensor_bhsd(right, HEADS, ROWS, DIM);

    must(clattn_reference_forward(&problem, NULL, &host));
    for (int call = 0; call < CALLS; ++call) {
        must(clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL));
        read_buffer(queue, tensors.out.buffer, sizeof(out), out, 0, NULL);
        compare("a thread's out", out, right, ELEMENTS, 1e-5);
    }

    for (int i = 0; i < 3; ++i) {
        clReleaseMemObject(inputs[i]->buffer);
    }
    clReleaseMemObject(tensors.out.buffer);
    clReleaseMemObject(tensors.workspace);
    clReleaseCommandQueue(queue);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = DIM;
    must(clattn_context_open(NULL, NULL, &context));
    must(clattn_plan_create(context, &problem, &plan));
    for (uint32_t i = 0; i < THREADS; ++i) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, serve, &numbers[i]) != 0) {
            return fprintf(stderr, "no thread\n"), 1;
        }
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    clattn_plan_destroy(plan); /* nothing is in flight any more */
    clattn_context_destroy(context);
    return 0;
}
