/* Decoding with a cache of keys and values that grows: a prompt in one causal call, then a token at a time. Two plans,
 * made before the first token, serve every length. What comes out is what one causal call over all tokens gives. */
#include "example.h"

enum { QUERY_HEADS = 4, KV_HEADS = 2, DIM = 16, PROMPT = 5, TOKENS = 9, CACHE_ROWS = 32 };
enum { QUERY_ROW = QUERY_HEADS * DIM, KV_ROW = KV_HEADS * DIM }; /* elements of a token, all heads side by side */

/* The cache holds [token, head, dim]: a new token is one piece of memory behind the last one. */
struct decoder {
    clattn_context *context;
    clattn_plan *prompt, *step;
    clattn_tensors tensors; /* query and out: as many tokens as a call has */
};

static clattn_plan *new_plan(clattn_context *context, int64_t queries, int causal)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    problem.query_heads = QUERY_HEADS;
    problem.kv_heads = KV_HEADS;
    problem.query_len = queries;
    problem.key_len = CACHE_ROWS; /* the most that a call may have; calls say how many there are */
    problem.head_dim = DIM;
    problem.causal = causal;
    problem.alignment = CLATTN_ALIGN_BOTTOM_RIGHT; /* the last query is the newest token */
    must(clattn_plan_create(context, &problem, &plan));
    return plan;
}

static void decoder_open(struct decoder *decoder)
{
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    const size_t query_bytes = PROMPT * QUERY_ROW * sizeof(float), cache_bytes = CACHE_ROWS * KV_ROW * sizeof(float);
    clattn_context *context;
    must(clattn_context_open(NULL, NULL, &context));
    decoder->context = context;
    decoder->prompt = new_plan(context, PROMPT, 1);
    decoder->step = new_plan(context, 1, 0); /* one query sees all keys that there are: nothing to mask */
    decoder->tensors = none;
    decoder->tensors.query = clattn_tensor_bshd(device_buffer(context, query_bytes, NULL), QUERY_HEADS, PROMPT, DIM);
    decoder->tensors.out = clattn_tensor_bshd(device_buffer(context, query_bytes, NULL), QUERY_HEADS, PROMPT, DIM);
    decoder->tensors.key = clattn_tensor_bshd(device_buffer(context, cache_bytes, NULL), KV_HEADS, CACHE_ROWS, DIM);
    decoder->tensors.value = clattn_tensor_bshd(device_buffer(context, cache_bytes, NULL), KV_HEADS, CACHE_ROWS, DIM);
    const size_t of_prompt = clattn_plan_workspace(decoder->prompt), of_step = clattn_plan_workspace(decoder->step);
    decoder->tensors.workspace = device_buffer(context, of_prompt > of_step ? of_prompt : of_step, NULL);
}

static void decoder_close(struct decoder *decoder)
{
    const clattn_tensors *tensors = &decoder->tensors;
    const cl_mem buffers[] = { tensors->query.buffer, tensors->key.buffer, tensors->value.buffer, tensors->out.buffer,
                               tensors->workspace };
    for (size_t i = 0; i < COUNT(buffers); ++i) {
        clReleaseMemObject(buffers[i]);
    }
    clattn_plan_destroy(decoder->prompt);
    clattn_plan_destroy(decoder->step);
    clattn_context_destroy(decoder->context);
}

/* Tokens first .. first + count: their keys and values go into the cache, their queries attend to all of it. */
static void decode(struct decoder *decoder, int first, int count, const float *query, const float *key,
                   const float *value, float *out)
{
    const cl_command_queue queue = clattn_context_queue(decoder->context);
    const clattn_tensors *tensors = &decoder->tensors;
    const size_t query_bytes = (size_t)count * QUERY_ROW * sizeof(float);
    const size_t row_bytes = KV_ROW * sizeof(float), at = (size_t)first * row_bytes, bytes = (size_t)count * row_bytes;
    must_cl(clEnqueueWriteBuffer(queue, tensors->query.buffer, CL_FALSE, 0, query_bytes, query + first * QUERY_ROW, 0,
                                 NULL, NULL));
    must_cl(clEnqueueWriteBuffer(queue, tensors->key.buffer, CL_FALSE, at, bytes, key + first * KV_ROW, 0, NULL, NULL));
    must_cl(
        clEnqueueWriteBuffer(queue, tensors->value.buffer, CL_FALSE, at, bytes, value + first * KV_ROW, 0, NULL, NULL));
    clattn_call call = CLATTN_CALL_INIT;
    call.key_len = first + count; /* what lies behind in the cache is not read */
    must(clattn_enqueue_forward(count == 1 ? decoder->step : decoder->prompt, queue, &call, tensors, 0, NULL, NULL));
    read_buffer(queue, tensors->out.buffer, query_bytes, out + first * QUERY_ROW, 0, NULL); /* in order: it waits */
}

/* All tokens in one causal call of the reference. */
static void reference(const float *query, const float *key, const float *value, float *right)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    problem.query_heads = QUERY_HEADS;
    problem.kv_heads = KV_HEADS;
    problem.query_len = problem.key_len = TOKENS;
    problem.head_dim = DIM;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT;
    host.query = clattn_host_tensor_bshd(query, QUERY_HEADS, TOKENS, DIM);
    host.key = clattn_host_tensor_bshd(key, KV_HEADS, TOKENS, DIM);
    host.value = clattn_host_tensor_bshd(value, KV_HEADS, TOKENS, DIM);
    host.out = clattn_host_tensor_bshd(right, QUERY_HEADS, TOKENS, DIM);
    must(clattn_reference_forward(&problem, NULL, &host));
}

int main(void)
{
    float query[TOKENS * QUERY_ROW], key[TOKENS * KV_ROW], value[TOKENS * KV_ROW];
    float out[TOKENS * QUERY_ROW], right[TOKENS * QUERY_ROW];
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);

    struct decoder decoder;
    decoder_open(&decoder);
    decode(&decoder, 0, PROMPT, query, key, value, out);
    for (int token = PROMPT; token < TOKENS; ++token) {
        decode(&decoder, token, 1, query, key, value, out);
    }
    decoder_close(&decoder);

    reference(query, key, value, right);
    compare("prompt and steps", out, right, COUNT(out), 1e-5);
    return 0;
}
