/* A program outside the tree that was compiled with another version's header: tests/consumer/growth makes one with
 * fewer fields at the end of every struct that grows, and one with a field more (-D NEWER). Every struct goes through
 * the library once, by its init function, and works; what a newer one asks for is refused and not ignored. */
#include "growth_tries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float data[64] = { 1, 2, 3, 4 };
static int failed;

void expect(clattn_status got, clattn_status wanted, const char *what)
{
    if (got != wanted) {
        printf("FAIL %s: %s, expected %s: %s\n", what, clattn_status_name(got), clattn_status_name(wanted),
               clattn_last_error());
        failed = 1;
    }
}

clattn_host_tensor host_tensor(float *values)
{
    clattn_host_tensor tensor = CLATTN_TENSOR_NONE;
    tensor.data = values;
    clattn_strides_bhsd(1, 2, 2, tensor.stride);
    return tensor;
}

clattn_tensor device_tensor(cl_mem buffer, int64_t columns)
{
    clattn_tensor tensor = CLATTN_TENSOR_NONE;
    tensor.buffer = buffer;
    clattn_strides_bhsd(1, 2, columns, tensor.stride);
    return tensor;
}

static void attention_on_host(clattn_context *context)
{
    clattn_problem problem;
    clattn_call call;
    clattn_host_tensors tensors;
    float out[4];
    clattn_problem_init(&problem, sizeof(problem));
    clattn_call_init(&call, sizeof(call));
    clattn_host_tensors_init(&tensors, sizeof(tensors));
    problem.query_len = problem.key_len = problem.head_dim = 2;
    tensors.query = tensors.key = tensors.value = host_tensor(data);
    tensors.out = host_tensor(out);
    TRY(clattn_reference_forward(&problem, &call, &tensors), problem, "problem");
    TRY(clattn_reference_forward(&problem, &call, &tensors), call, "call");
    TRY(clattn_forward_host(context, &problem, &call, &tensors), tensors, "host tensors");
}

static void attention_on_device(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out, cl_mem lse)
{
    clattn_problem problem;
    clattn_tensors tensors;
    clattn_merge_problem merge;
    clattn_partial partial = { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE };
    clattn_plan *plan = NULL;
    clattn_problem_init(&problem, sizeof(problem));
    clattn_tensors_init(&tensors, sizeof(tensors));
    clattn_merge_problem_init(&merge, sizeof(merge));
    problem.query_len = problem.key_len = problem.head_dim = 2;
    problem.strategy = "plain";
    expect(clattn_plan_create(context, &problem, &plan), CLATTN_OK, "plan");
    tensors.query = tensors.key = tensors.value = device_tensor(in, 2);
    tensors.out = partial.out = device_tensor(out, 2);
    partial.lse = device_tensor(lse, 1);
    TRY(clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL), tensors, "tensors");
    merge.rows = merge.columns = 2;
    TRY(clattn_merge(context, queue, &merge, 1, &partial, &partial, 0, NULL, NULL), merge, "merge problem");
    clFinish(queue);
    clattn_plan_destroy(plan);
}

static void code_of_a_user(clattn_context *context)
{
    clattn_problem problem;
    clattn_user_code code;
    clattn_plan *plan = NULL;
    clattn_problem_init(&problem, sizeof(problem));
    clattn_user_code_init(&code, sizeof(code));
    problem.query_len = problem.key_len = problem.head_dim = 2;
    problem.strategy = "plain";
    code.source = "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n    return j <= i;\n}\n";
    code.functions = CLATTN_CODE_MASK;
    problem.code = &code;
    TRY(clattn_plan_create(context, &problem, &plan), code, "user code");
    clattn_plan_destroy(plan);
}

static void schedule(void)
{
    clattn_problem problem;
    clattn_ring_options options;
    clattn_ring *ring = NULL;
    clattn_problem_init(&problem, sizeof(problem));
    clattn_ring_options_init(&options, sizeof(options));
    problem.query_len = problem.key_len = problem.head_dim = 2;
    TRY(clattn_ring_create(&problem, &options, &ring), options, "options");
    clattn_ring_destroy(ring);
}

static void sums_of_weights(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem lse, cl_mem out)
{
    clattn_problem forward;
    clattn_key_sums_problem problem;
    clattn_host_tensors host;
    clattn_host_key_sums host_sums;
    clattn_tensors tensors;
    clattn_key_sums sums;
    clattn_plan *plan = NULL;
    float sum[2], no_lse[2] = { 0, 0 };
    clattn_problem_init(&forward, sizeof(forward));
    clattn_key_sums_problem_init(&problem, sizeof(problem));
    clattn_host_tensors_init(&host, sizeof(host));
    clattn_host_key_sums_init(&host_sums, sizeof(host_sums));
    clattn_tensors_init(&tensors, sizeof(tensors));
    clattn_key_sums_init(&sums, sizeof(sums));
    forward.query_len = forward.key_len = forward.head_dim = 2;
    problem.forward = &forward;
    host.query = host.key = host_tensor(data);
    host.lse = host_tensor(no_lse);
    host.lse.stride[2] = 1;
    host_sums.key_sums = host_tensor(sum);
    TRY(clattn_reference_key_sums(&problem, NULL, &host, &host_sums), problem, "problem of sums");
    TRY(clattn_key_sums_host(context, &problem, NULL, &host, &host_sums), host_sums, "host sums");
    expect(clattn_key_sums_plan_create(context, &problem, &plan), CLATTN_OK, "plan of sums");
    tensors.query = tensors.key = device_tensor(in, 2);
    tensors.lse = device_tensor(lse, 1);
    sums.key_sums = device_tensor(out, 2);
    TRY(clattn_enqueue_key_sums(plan, queue, NULL, &tensors, &sums, 0, NULL, NULL), sums, "sums");
    clFinish(queue);
    clattn_plan_destroy(plan);
}

static void backward(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem lse, cl_mem out)
{
    clattn_problem forward;
    clattn_backward_problem problem;
    clattn_host_tensors host;
    clattn_host_gradients host_gradients;
    clattn_tensors tensors;
    clattn_gradients gradients;
    clattn_plan *plan = NULL;
    float dquery[4];
    clattn_problem_init(&forward, sizeof(forward));
    clattn_backward_problem_init(&problem, sizeof(problem));
    clattn_host_tensors_init(&host, sizeof(host));
    clattn_host_gradients_init(&host_gradients, sizeof(host_gradients));
    clattn_tensors_init(&tensors, sizeof(tensors));
    clattn_gradients_init(&gradients, sizeof(gradients));
    forward.query_len = forward.key_len = forward.head_dim = 2;
    problem.forward = &forward;
    problem.gradients = CLATTN_GRADIENT_QUERY;
    host.query = host.key = host.value = host.out = host_gradients.dout = host_tensor(data);
    host.lse = clattn_host_tensor_bhsd(data, 1, 2, 1);
    host_gradients.dquery = host_tensor(dquery);
    TRY(clattn_reference_backward(&problem, NULL, &host, &host_gradients), problem, "backward problem");
    TRY(clattn_backward_host(context, &problem, NULL, &host, &host_gradients), host_gradients, "host gradients");
    expect(clattn_backward_plan_create(context, &problem, &plan), CLATTN_OK, "backward plan");
    gradients.workspace = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    tensors.query = tensors.key = tensors.value = tensors.out = gradients.dout = device_tensor(in, 2);
    tensors.lse = device_tensor(lse, 1);
    gradients.dquery = device_tensor(out, 2);
    TRY(clattn_enqueue_backward(plan, queue, NULL, &tensors, &gradients, 0, NULL, NULL), gradients, "gradients");
    clFinish(queue);
    clattn_plan_destroy(plan);
    clReleaseMemObject(gradients.workspace);
}

static void cache_on_host(clattn_context *context)
{
    clattn_rotary_scaling scaling;
    clattn_rotary_problem rotary;
    clattn_rotary_host_tensors rotary_tensors;
    clattn_append_problem append;
    clattn_append_host_tensors append_tensors;
    clattn_cache_call call;
    int32_t starts[1] = { 0 };
    float cosine[2], sine[2], out[3][4];
    clattn_rotary_scaling_init(&scaling, sizeof(scaling));
    clattn_rotary_problem_init(&rotary, sizeof(rotary));
    clattn_rotary_host_tensors_init(&rotary_tensors, sizeof(rotary_tensors));
    clattn_append_problem_init(&append, sizeof(append));
    clattn_append_host_tensors_init(&append_tensors, sizeof(append_tensors));
    clattn_cache_call_init(&call, sizeof(call));
    TRY(clattn_rotary_table(&scaling, 2, 2, NULL, cosine, sine), scaling, "rotary scaling");
    rotary.pairs = CLATTN_PAIRS_HALVES;
    rotary.query_len = rotary.head_dim = rotary.positions = 2;
    rotary.features = CLATTN_WITH_STARTS;
    rotary_tensors.starts.data = starts;
    rotary_tensors.x = host_tensor(data);
    rotary_tensors.out = host_tensor(out[0]);
    rotary_tensors.cosine = rotary_tensors.sine = clattn_host_tensor_bhsd(cosine, 1, 2, 1);
    TRY(clattn_reference_rotary(&rotary, &call, &rotary_tensors), rotary, "rotary problem");
    TRY(clattn_rotary_host(context, &rotary, &call, &rotary_tensors), rotary_tensors, "rotary host tensors");
    TRY(clattn_rotary_host(context, &rotary, &call, &rotary_tensors), call, "cache call");
    append.query_len = append.head_dim = append.capacity = 2;
    append.features = CLATTN_WITH_STARTS;
    append_tensors.starts.data = starts;
    append_tensors.key = append_tensors.value = host_tensor(data);
    append_tensors.key_cache = host_tensor(out[1]);
    append_tensors.value_cache = host_tensor(out[2]);
    TRY(clattn_reference_append(&append, &call, &append_tensors), append, "append problem");
    TRY(clattn_append_host(context, &append, &call, &append_tensors), append_tensors, "append host tensors");
}

static void cache_on_device(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out, cl_mem other)
{
    clattn_rotary_problem rotary;
    clattn_rotary_tensors rotary_tensors;
    clattn_append_problem append;
    clattn_append_tensors append_tensors;
    clattn_plan *plan = NULL;
    const int32_t zero = 0;
    cl_mem starts = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof(zero),
                                   (void *)&zero, NULL);
    clattn_rotary_problem_init(&rotary, sizeof(rotary));
    clattn_rotary_tensors_init(&rotary_tensors, sizeof(rotary_tensors));
    clattn_append_problem_init(&append, sizeof(append));
    clattn_append_tensors_init(&append_tensors, sizeof(append_tensors));
    rotary.pairs = CLATTN_PAIRS_HALVES;
    rotary.query_len = rotary.head_dim = rotary.positions = 2;
    append.query_len = append.head_dim = append.capacity = 2;
    rotary.features = append.features = CLATTN_WITH_STARTS;
    rotary_tensors.starts.buffer = append_tensors.starts.buffer = starts;
    rotary_tensors.x = append_tensors.key = append_tensors.value = device_tensor(in, 2);
    rotary_tensors.cosine = rotary_tensors.sine = device_tensor(in, 1);
    rotary_tensors.out = append_tensors.key_cache = device_tensor(out, 2);
    append_tensors.value_cache = device_tensor(other, 2);
    expect(clattn_rotary_plan_create(context, &rotary, &plan), CLATTN_OK, "a plan of rotary");
    TRY(clattn_enqueue_rotary(plan, queue, NULL, &rotary_tensors, 0, NULL, NULL), rotary_tensors, "rotary tensors");
    clattn_plan_destroy(plan);
    expect(clattn_append_plan_create(context, &append, &plan), CLATTN_OK, "a plan of append");
    TRY(clattn_enqueue_append(plan, queue, NULL, &append_tensors, 0, NULL, NULL), append_tensors, "append tensors");
    clFinish(queue);
    clattn_plan_destroy(plan);
    clReleaseMemObject(starts);
}

/* A kernel's time. */
static void kernel_times(clattn_context *context, cl_mem in, cl_mem out)
{
    clattn_problem problem;
    clattn_tensors tensors;
    clattn_plan *plan = NULL;
    clattn_kernel_time time;
    clattn_kernel_times *times = NULL;
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context),
                                                  CL_QUEUE_PROFILING_ENABLE, NULL);
    clattn_problem_init(&problem, sizeof(problem));
    clattn_tensors_init(&tensors, sizeof(tensors));
    clattn_kernel_time_init(&time, sizeof(time));
    problem.query_len = problem.key_len = problem.head_dim = 2;
    problem.strategy = "plain";
    tensors.query = tensors.key = tensors.value = device_tensor(in, 2);
    tensors.out = device_tensor(out, 2);
    expect(clattn_plan_create(context, &problem, &plan), CLATTN_OK, "a plan");
    expect(clattn_kernel_times_create(context, queue, &times), CLATTN_OK, "times of kernels");
    expect(clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL), CLATTN_OK, "a call");
    clFinish(queue);
    TRY(clattn_kernel_times_get(times, 0, &time), time, "a kernel's time");
    if (!time.kernel || !time.file || !time.event) {
        printf("FAIL times of kernels: a field was not filled\n");
        failed = 1;
    }
    clattn_kernel_times_destroy(times);
    clReleaseCommandQueue(queue);
    clattn_plan_destroy(plan);
}

/* What the library fills: of an older program's struct the fields that it has, of a newer one's those that it knows. */
static void costs(clattn_context *context)
{
    clattn_problem problem;
    clattn_plan *plan = NULL;
    clattn_device_facts facts;
    clattn_context_costs of_context;
    clattn_program_costs of_program;
    clattn_plan_costs of_plan;
    clattn_estimate estimate;
    clattn_problem_init(&problem, sizeof(problem));
    clattn_device_facts_init(&facts, sizeof(facts));
    clattn_context_costs_init(&of_context, sizeof(of_context));
    clattn_program_costs_init(&of_program, sizeof(of_program));
    clattn_plan_costs_init(&of_plan, sizeof(of_plan));
    clattn_estimate_init(&estimate, sizeof(estimate));
    problem.query_len = problem.key_len = problem.head_dim = 2;
    expect(clattn_plan_create(context, &problem, &plan), CLATTN_OK, "a plan");
    TRY(clattn_context_get_facts(context, &facts), facts, "facts");
    TRY(clattn_context_get_costs(context, &of_context), of_context, "costs of a context");
    TRY(clattn_context_get_program(context, 0, &of_program), of_program, "costs of a program");
    TRY(clattn_plan_get_costs(plan, &of_plan), of_plan, "costs of a plan");
    TRY(clattn_plan_get_estimate(plan, 0, &estimate), estimate, "an estimate");
    if (!facts.name || of_context.programs == 0 || !of_program.file || of_plan.create_ms <= 0 || !estimate.strategy) {
        printf("FAIL facts and costs: a field was not filled\n");
        failed = 1;
    }
    clattn_plan_destroy(plan);
}

int main(void)
{
    clattn_context_options options;
    clattn_context *context = NULL;
    clattn_context_options_init(&options, sizeof(options));
    expect(clattn_context_open(NULL, &options, &context), CLATTN_OK, "context options");
    if (!context) {
        return 1;
    }
#ifdef NEWER
    clattn_context *other = NULL;
    options.field_of_the_future = 1;
    expect(clattn_context_open(NULL, &options, &other), CLATTN_UNSUPPORTED,
           "context options, asking for something new");
#endif
    cl_context cl = clattn_context_cl(context);
    cl_mem in = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(data), data, NULL);
    cl_mem out = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(data), data, NULL);
    cl_mem lse = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(data), data, NULL);
    attention_on_host(context);
    code_of_a_user(context);
    schedule();
    attention_on_device(context, clattn_context_queue(context), in, out, lse);
    backward(context, clattn_context_queue(context), in, lse, out);
    sums_of_weights(context, clattn_context_queue(context), in, lse, out);
    layer_gradients(context, clattn_context_queue(context), in, out);
    additive_gradients(context, clattn_context_queue(context), in, out);
    layers(context, clattn_context_queue(context), in, out);
    cache_on_host(context);
    costs(context);
    kernel_times(context, in, out);
    cache_on_device(context, clattn_context_queue(context), in, out, lse);
    clReleaseMemObject(in);
    clReleaseMemObject(out);
    clReleaseMemObject(lse);
    clattn_context_destroy(context);
    printf(failed ? "" : "all structs were taken\n");
    return failed;
}
