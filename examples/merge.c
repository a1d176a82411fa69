/* Attention over keys that lie in parts, as where they are on several devices or come one after the other: each part
 * gives an out and its lse, the logarithm of the sum of its exponentials, and clattn_merge makes of them what attention
 * over all keys gives. */
#include "example.h"

enum { HEADS = 2, QUERIES = 4, DIM = 16, PARTS = 3 };
static const int64_t begins[PARTS + 1] = { 0, 8, 11, 20 }; /* of the keys of each part */
enum { KEYS = 20, LONGEST = 9 };

int main(void)
{
    float query[HEADS * QUERIES * DIM], key[HEADS * KEYS * DIM], value[HEADS * KEYS * DIM];
    float out[HEADS * QUERIES * DIM], right[HEADS * QUERIES * DIM];
    const size_t lse_bytes = HEADS * QUERIES * sizeof(float);
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);

    clattn_context *context;
    clattn_plan *plan;
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = QUERIES;
    problem.key_len = LONGEST; /* one plan for all parts */
    problem.head_dim = DIM;
    problem.features = CLATTN_WITH_LSE;
    must(clattn_context_open(NULL, NULL, &context));
    must(clattn_plan_create(context, &problem, &plan));

    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    tensors.query = clattn_tensor_bhsd(device_buffer(context, sizeof(query), query), HEADS, QUERIES, DIM);
    tensors.key = clattn_tensor_bhsd(device_buffer(context, sizeof(key), key), HEADS, KEYS, DIM);
    tensors.value = clattn_tensor_bhsd(device_buffer(context, sizeof(value), value), HEADS, KEYS, DIM);
    tensors.workspace = device_buffer(context, clattn_plan_workspace(plan), NULL);

    const cl_command_queue queue = clattn_context_queue(context); /* in order: a part follows the one before */
    clattn_partial partials[PARTS];
    for (int part = 0; part < PARTS; ++part) {
        partials[part].out = clattn_tensor_bhsd(device_buffer(context, sizeof(out), NULL), HEADS, QUERIES, DIM);
        partials[part].lse = clattn_tensor_bhsd(device_buffer(context, lse_bytes, NULL), HEADS, QUERIES, 1);
        tensors.out = partials[part].out;
        tensors.lse = partials[part].lse;
        tensors.key.offset = tensors.value.offset = begins[part] * DIM; /* strides are those of all keys */
        clattn_call call = CLATTN_CALL_INIT;
        call.key_len = begins[part + 1] - begins[part];
        must(clattn_enqueue_forward(plan, queue, &call, &tensors, 0, NULL, NULL));
    }

    clattn_merge_problem merge = CLATTN_MERGE_PROBLEM_INIT;
    merge.heads = HEADS;
    merge.rows = QUERIES;
    merge.columns = DIM;
    const clattn_partial merged = partials[0]; /* in place */
    must(clattn_merge(context, queue, &merge, PARTS, partials, &merged, 0, NULL, NULL));
    read_buffer(queue, merged.out.buffer, sizeof(out), out, 0, NULL);

    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    problem.key_len = KEYS;
    problem.features = 0;
    host.query = clattn_host_tensor_bhsd(query, HEADS, QUERIES, DIM);
    host.key = clattn_host_tensor_bhsd(key, HEADS, KEYS, DIM);
    host.value = clattn_host_tensor_bhsd(value, HEADS, KEYS, DIM);
    host.out = clattn_host_tensor_bhsd(right, HEADS, QUERIES, DIM);
    must(clattn_reference_forward(&problem, NULL, &host));
    compare("merged", out, right, COUNT(out), 1e-5);

    for (int part = 0; part < PARTS; ++part) {
        clReleaseMemObject(partials[part].out.buffer);
        clReleaseMemObject(partials[part].lse.buffer);
    }
    clReleaseMemObject(tensors.query.buffer);
    clReleaseMemObject(tensors.key.buffer);
    clReleaseMemObject(tensors.value.buffer);
    clReleaseMemObject(tensors.workspace);
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    return 0;
}
