/* A plan that is made once, enqueued on queues of your own, and tied to other work by events:
 *     the copy queue writes the queries -> the compute queue attends -> the copy queue reads the result */
#include "example.h"

#include <clattn_costs.h>

enum { HEADS = 2, QUERIES = 6, KEYS = 10, DIM = 16 };

static cl_command_queue new_queue(const clattn_context *context, cl_command_queue_properties properties)
{
    cl_int error;
    const cl_command_queue queue =
        clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), properties, &error);
    must_cl(error);
    return queue;
}

/* What the planner thought of each strategy, or why it did not take it. */
static void print_estimates(const clattn_plan *plan)
{
    clattn_plan_costs costs = CLATTN_PLAN_COSTS_INIT;
    must(clattn_plan_get_costs(plan, &costs)); /* create_ms, of that compile_ms; programs; workspace_bytes */
    for (uint64_t i = 0; i < costs.strategies; ++i) {
        clattn_estimate estimate = CLATTN_ESTIMATE_INIT;
        must(clattn_plan_get_estimate(plan, i, &estimate));
        printf("    %-10s %s\n", estimate.strategy, estimate.declined ? estimate.declined : "could");
    }
}

/* What each kernel took of the calls that were made since `times`. */
static void print_kernels(clattn_kernel_times *times)
{
    for (uint64_t i = 0; i < clattn_kernel_times_count(times); ++i) {
        clattn_kernel_time time = CLATTN_KERNEL_TIME_INIT;
        must(clattn_kernel_times_get(times, i, &time));
        printf("    %s, %s: %.3f ms\n", time.file, time.kernel, (double)(time.ended_ns - time.started_ns) * 1e-6);
    }
}

int main(void)
{
    float query[HEADS * QUERIES * DIM], key[HEADS * KEYS * DIM], value[HEADS * KEYS * DIM];
    float out[HEADS * QUERIES * DIM], right[HEADS * QUERIES * DIM];
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));

    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = QUERIES;
    problem.key_len = KEYS;
    problem.head_dim = DIM;
    clattn_plan *plan; /* compiles, so it is made once and kept */
    must(clattn_plan_create(context, &problem, &plan));
    printf("strategy %s, %zu bytes of workspace\n", clattn_plan_strategy(plan), clattn_plan_workspace(plan));
    print_estimates(plan);

    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    tensors.query = clattn_tensor_bhsd(device_buffer(context, sizeof(query), NULL), HEADS, QUERIES, DIM);
    tensors.key = clattn_tensor_bhsd(device_buffer(context, sizeof(key), key), HEADS, KEYS, DIM);
    tensors.value = clattn_tensor_bhsd(device_buffer(context, sizeof(value), value), HEADS, KEYS, DIM);
    tensors.out = clattn_tensor_bhsd(device_buffer(context, sizeof(out), NULL), HEADS, QUERIES, DIM);
    tensors.workspace = device_buffer(context, clattn_plan_workspace(plan), NULL);

    const cl_command_queue copies = new_queue(context, 0), computes = new_queue(context, CL_QUEUE_PROFILING_ENABLE);
    clattn_kernel_times *times;
    must(clattn_kernel_times_create(context, computes, &times));
    cl_event written, attended;
    must_cl(clEnqueueWriteBuffer(copies, tensors.query.buffer, CL_FALSE, 0, sizeof(query), query, 0, NULL, &written));
    must_cl(clFlush(copies)); /* another queue waits for it */
    must(clattn_enqueue_forward(plan, computes, NULL, &tensors, 1, &written, &attended));
    must_cl(clFlush(computes));
    read_buffer(copies, tensors.out.buffer, sizeof(out), out, 1, &attended);
    print_kernels(times);

    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    host.query = clattn_host_tensor_bhsd(query, HEADS, QUERIES, DIM);
    host.key = clattn_host_tensor_bhsd(key, HEADS, KEYS, DIM);
    host.value = clattn_host_tensor_bhsd(value, HEADS, KEYS, DIM);
    host.out = clattn_host_tensor_bhsd(right, HEADS, QUERIES, DIM);
    must(clattn_reference_forward(&problem, NULL, &host));
    compare("out", out, right, COUNT(out), 1e-5);

    clattn_kernel_times_destroy(times);
    clReleaseEvent(written);
    clReleaseEvent(attended);
    clReleaseCommandQueue(copies);
    clReleaseCommandQueue(computes);
    clReleaseMemObject(tensors.query.buffer);
    clReleaseMemObject(tensors.key.buffer);
    clReleaseMemObject(tensors.value.buffer);
    clReleaseMemObject(tensors.out.buffer);
    clReleaseMemObject(tensors.workspace);
    clattn_plan_destroy(plan); /* plans before their context */
    clattn_context_destroy(context);
    return 0;
}
