/* A decoder's steps with a cache of pages, keys and values quantised to q8_0: one command turns the queries and keys of
 * the new rows by their positions and writes keys and values into their pages, the next attends over them. What comes
 * out is compared with attention over turned keys that were never quantised. */
#include <clattn_cache.h>

#include "example.h"

enum { QUERY_HEADS = 4, KV_HEADS = 2, DIM = 64, PAGE = 16, PAGES = 8, CAPACITY = 64, PROMPT = 20, STEPS = 4 };
enum { TOKENS = PROMPT + STEPS, BLOCK_BYTES = 34 };
static const int32_t page_table[CAPACITY / PAGE] = { 5, 0, 7, 2 }; /* any pages of the pool */

/* A step of new rows, from row `first` on: of queries and keys and values as the projections left them. */
static void step(clattn_context *context, const clattn_plan *append, clattn_append_tensors *tensors, int32_t first,
                 int64_t rows)
{
    const cl_command_queue queue = clattn_context_queue(context);
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    call.query_len = rows;
    must_cl(clEnqueueWriteBuffer(queue, tensors->starts.buffer, CL_TRUE, 0, sizeof(first), &first, 0, NULL, NULL));
    tensors->query.offset = tensors->query_out.offset = tensors->key.offset = tensors->value.offset = first * DIM;
    must(clattn_enqueue_append(append, queue, &call, tensors, 0, NULL, NULL));
}

/* The same tokens at once, in float32, by the reference. */
static void compute_right(const float *query, const float *key, const float *value, const float *cosine,
                          const float *sine, float *out)
{
    static float turned_query[QUERY_HEADS * TOKENS * DIM], turned_key[KV_HEADS * TOKENS * DIM];
    int32_t start = 0;
    clattn_rotary_problem turn = CLATTN_ROTARY_PROBLEM_INIT;
    clattn_rotary_host_tensors rows = CLATTN_ROTARY_HOST_TENSORS_INIT;
    turn.pairs = CLATTN_PAIRS_HALVES;
    turn.heads = QUERY_HEADS;
    turn.query_len = TOKENS;
    turn.head_dim = DIM;
    turn.positions = CAPACITY;
    turn.features = CLATTN_WITH_STARTS;
    rows.x = clattn_host_tensor_bhsd(query, QUERY_HEADS, TOKENS, DIM);
    rows.out = clattn_host_tensor_bhsd(turned_query, QUERY_HEADS, TOKENS, DIM);
    rows.cosine = clattn_host_tensor_bhsd(cosine, 1, CAPACITY, DIM / 2);
    rows.sine = clattn_host_tensor_bhsd(sine, 1, CAPACITY, DIM / 2);
    rows.starts.data = &start;
    must(clattn_reference_rotary(&turn, NULL, &rows));
    turn.heads = KV_HEADS;
    rows.x = clattn_host_tensor_bhsd(key, KV_HEADS, TOKENS, DIM);
    rows.out = clattn_host_tensor_bhsd(turned_key, KV_HEADS, TOKENS, DIM);
    must(clattn_reference_rotary(&turn, NULL, &rows));

    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    problem.query_heads = QUERY_HEADS;
    problem.kv_heads = KV_HEADS;
    problem.query_len = problem.key_len = TOKENS;
    problem.head_dim = DIM;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT;
    tensors.query = clattn_host_tensor_bhsd(turned_query, QUERY_HEADS, TOKENS, DIM);
    tensors.key = clattn_host_tensor_bhsd(turned_key, KV_HEADS, TOKENS, DIM);
    tensors.value = clattn_host_tensor_bhsd(value, KV_HEADS, TOKENS, DIM);
    tensors.out = clattn_host_tensor_bhsd(out, QUERY_HEADS, TOKENS, DIM);
    must(clattn_reference_forward(&problem, NULL, &tensors));
}

int main(void)
{
    static float query[QUERY_HEADS * TOKENS * DIM], key[KV_HEADS * TOKENS * DIM], value[KV_HEADS * TOKENS * DIM];
    static float cosine[CAPACITY * DIM / 2], sine[CAPACITY * DIM / 2];
    static float out[QUERY_HEADS * TOKENS * DIM], right[QUERY_HEADS * TOKENS * DIM];
    const size_t pool_bytes = (size_t)PAGES * KV_HEADS * PAGE * (DIM / 32) * BLOCK_BYTES;
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);

    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT; /* of the model: its base, its scaling */
    must(clattn_rotary_table(&scaling, DIM, CAPACITY, NULL, cosine, sine));

    clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    problem.query_heads = QUERY_HEADS;
    problem.kv_heads = KV_HEADS;
    problem.query_len = PROMPT; /* the most of one call */
    problem.head_dim = DIM;
    problem.key_type = problem.value_type = CLATTN_Q8_0;
    problem.capacity = CAPACITY;
    problem.page_size = PAGE;
    problem.pages = PAGES;
    problem.pairs = CLATTN_PAIRS_HALVES; /* of the model too */
    problem.positions = CAPACITY;
    problem.features = CLATTN_WITH_ROTARY | CLATTN_WITH_STARTS | CLATTN_WITH_PAGES;
    clattn_plan *append;
    must(clattn_append_plan_create(context, &problem, &append));

    const int32_t zero = 0;
    clattn_append_tensors tensors = CLATTN_APPEND_TENSORS_INIT;
    tensors.query = clattn_tensor_bhsd(device_buffer(context, sizeof(query), query), QUERY_HEADS, TOKENS, DIM);
    tensors.query_out = tensors.query; /* in place */
    tensors.key = clattn_tensor_bhsd(device_buffer(context, sizeof(key), key), KV_HEADS, TOKENS, DIM);
    tensors.value = clattn_tensor_bhsd(device_buffer(context, sizeof(value), value), KV_HEADS, TOKENS, DIM);
    tensors.key_cache = clattn_tensor_bhsd(device_buffer(context, pool_bytes, NULL), KV_HEADS, PAGE, DIM);
    tensors.value_cache = clattn_tensor_bhsd(device_buffer(context, pool_bytes, NULL), KV_HEADS, PAGE, DIM);
    tensors.cosine = clattn_tensor_bhsd(device_buffer(context, sizeof(cosine), cosine), 1, CAPACITY, DIM / 2);
    tensors.sine = clattn_tensor_bhsd(device_buffer(context, sizeof(sine), sine), 1, CAPACITY, DIM / 2);
    tensors.starts.buffer = device_buffer(context, sizeof(zero), &zero);
    tensors.page_table.buffer = device_buffer(context, sizeof(page_table), page_table);
    tensors.page_table.stride[3] = 1;

    step(context, append, &tensors, 0, PROMPT);
    for (int32_t token = PROMPT; token < TOKENS; ++token) {
        step(context, append, &tensors, token, 1);
    }

    clattn_problem attention = CLATTN_PROBLEM_INIT;
    attention.query_heads = QUERY_HEADS;
    attention.kv_heads = KV_HEADS;
    attention.query_len = attention.key_len = TOKENS;
    attention.head_dim = DIM;
    attention.key_type = attention.value_type = CLATTN_Q8_0;
    attention.features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    attention.page_size = PAGE;
    attention.pages = PAGES;
    attention.causal = 1;
    attention.alignment = CLATTN_ALIGN_TOP_LEFT;
    clattn_plan *forward;
    must(clattn_plan_create(context, &attention, &forward));
    const int32_t length = TOKENS;
    clattn_tensors attend = CLATTN_TENSORS_INIT;
    attend.query = tensors.query;
    attend.query.offset = 0;
    attend.key = tensors.key_cache;
    attend.value = tensors.value_cache;
    attend.page_table = tensors.page_table;
    attend.key_lengths.buffer = device_buffer(context, sizeof(length), &length);
    attend.out = clattn_tensor_bhsd(device_buffer(context, sizeof(out), NULL), QUERY_HEADS, TOKENS, DIM);
    attend.workspace = device_buffer(context, clattn_plan_workspace(forward), NULL);
    const cl_command_queue queue = clattn_context_queue(context); /* in order: after what was appended */
    must(clattn_enqueue_forward(forward, queue, NULL, &attend, 0, NULL, NULL));
    read_buffer(queue, attend.out.buffer, sizeof(out), out, 0, NULL);

    compute_right(query, key, value, cosine, sine, right);
    compare("attention over a q8_0 cache", out, right, COUNT(out), 0.02); /* 8 bits a key and a value */

    const cl_mem buffers[] = { tensors.query.buffer,  tensors.key.buffer,         tensors.value.buffer,
                               tensors.cosine.buffer, tensors.sine.buffer,        tensors.key_cache.buffer,
                               tensors.starts.buffer, tensors.value_cache.buffer, tensors.page_table.buffer,
                               attend.out.buffer,     attend.workspace,           attend.key_lengths.buffer };
    for (size_t i = 0; i < COUNT(buffers); ++i) {
        clReleaseMemObject(buffers[i]);
    }
    clattn_plan_destroy(append);
    clattn_plan_destroy(forward);
    clattn_context_destroy(context);
    return 0;
}
