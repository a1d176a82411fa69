/* A program outside the tree that was compiled with another version's header: tests/consumer/growth makes one with
 * fewer fields at the end of every struct that grows, and one with a field more (-D NEWER). Every struct goes through
 * the library once, by its init function, and works; what a newer one asks for is refused and not ignored. */
#include <clattn_layers.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float data[64] = { 1, 2, 3, 4 };
static int failed;

static void expect(clattn_status got, clattn_status wanted, const char *what)
{
    if (got != wanted) {
        printf("FAIL %s: %s, expected %s: %s\n", what, clattn_status_name(got), clattn_status_name(wanted),
               clattn_last_error());
        failed = 1;
    }
}

/* The call works; and with a field that this library does not know it is refused. */
#ifdef NEWER
#define TRY(call, given, what)                                                                                         \
    do {                                                                                                               \
        expect(call, CLATTN_OK, what);                                                                                 \
        (given).field_of_the_future = 1;                                                                               \
        expect(call, CLATTN_UNSUPPORTED, what ", asking for something new");                                           \
        (given).field_of_the_future = 0;                                                                               \
    } while (0)
#else
#define TRY(call, given, what) expect(call, CLATTN_OK, what)
#endif

static clattn_host_tensor host_tensor(float *values)
{
    clattn_host_tensor tensor = CLATTN_TENSOR_NONE;
    tensor.data = values;
    clattn_strides_bhsd(1, 2, 2, tensor.stride);
    return tensor;
}

static clattn_tensor device_tensor(cl_mem buffer, int64_t columns)
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

static void layers(clattn_context *context, cl_command_queue queue, cl_mem in, cl_mem out)
{
    clattn_mha_problem mha_problem;
    clattn_mha_arrays mha_arrays;
    clattn_mha_host_arrays mha_host;
    clattn_additive_problem additive_problem;
    clattn_additive_arrays additive_arrays;
    clattn_additive_host_arrays additive_host;
    clattn_mha *mha = NULL;
    clattn_additive *additive = NULL;
    const clattn_array from = { in, 0 }, to = { out, 0 };
    cl_mem workspace = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    float y[64];
    clattn_mha_problem_init(&mha_problem, sizeof(mha_problem));
    clattn_mha_arrays_init(&mha_arrays, sizeof(mha_arrays));
    clattn_mha_host_arrays_init(&mha_host, sizeof(mha_host));
    clattn_additive_problem_init(&additive_problem, sizeof(additive_problem));
    clattn_additive_arrays_init(&additive_arrays, sizeof(additive_arrays));
    clattn_additive_host_arrays_init(&additive_host, sizeof(additive_host));
    mha_problem.rows = mha_problem.model_dim = 2;
    mha_problem.query_heads = 1;
    mha_host.x = mha_host.wq = mha_host.wk = mha_host.wv = mha_host.wo = data;
    mha_host.y = y;
    mha_arrays.x = mha_arrays.wq = mha_arrays.wk = mha_arrays.wv = mha_arrays.wo = from;
    mha_arrays.y = to;
    mha_arrays.workspace = additive_arrays.workspace = workspace;
    TRY(clattn_mha_reference(&mha_problem, &mha_host), mha_problem, "mha problem");
    TRY(clattn_mha_reference(&mha_problem, &mha_host), mha_host, "mha host arrays");
    expect(clattn_mha_create(context, &mha_problem, &mha), CLATTN_OK, "mha_create");
    TRY(clattn_mha_enqueue(mha, queue, &mha_arrays, 0, NULL, NULL), mha_arrays, "mha arrays");
    additive_problem.rows = additive_problem.keys = additive_problem.query_dim = 2;
    additive_problem.hidden_dim = additive_problem.value_dim = 2;
    additive_host.query = additive_host.key = additive_host.value = data;
    additive_host.wq = additive_host.wk = additive_host.score = data;
    additive_host.out = y;
    additive_arrays.query = additive_arrays.key = additive_arrays.value = from;
    additive_arrays.wq = additive_arrays.wk = additive_arrays.score = from;
    additive_arrays.out = to;
    TRY(clattn_additive_reference(&additive_problem, &additive_host), additive_problem, "additive problem");
    TRY(clattn_additive_reference(&additive_problem, &additive_host), additive_host, "additive host arrays");
    expect(clattn_additive_create(context, &additive_problem, &additive), CLATTN_OK, "additive_create");
    TRY(clattn_additive_enqueue(additive, queue, &additive_arrays, 0, NULL, NULL), additive_arrays, "additive arrays");
    clFinish(queue);
    clattn_mha_destroy(mha);
    clattn_additive_destroy(additive);
    clReleaseMemObject(workspace);
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
    attention_on_device(context, clattn_context_queue(context), in, out, lse);
    layers(context, clattn_context_queue(context), in, out);
    clReleaseMemObject(in);
    clReleaseMemObject(out);
    clReleaseMemObject(lse);
    clattn_context_destroy(context);
    printf(failed ? "" : "all structs were taken\n");
    return failed;
}
