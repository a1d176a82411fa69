/* A decoder over a cache of pages, keys and values quantised to q8_0: a prompt, then a token at a time. Each step is
 * two commands: one turns the queries and keys of the new rows by their positions and writes keys and values into their
 * pages, the next attends over all that is there. Nothing is compiled, written or waited for between steps. What comes
 * out is compared with one causal call over turned keys that were never quantised. */
#include <clattn_cache.h>

#include "example.h"

enum { QUERY_HEADS = 4, KV_HEADS = 2, DIM = 64, PAGE = 16, PAGES = 8, CAPACITY = 64, PROMPT = 20, STEPS = 24 };
enum { TOKENS = PROMPT + STEPS, BLOCK_BYTES = 34 };
static const int32_t page_table[CAPACITY / PAGE] = { 5, 0, 7, 2 }; /* any pages of the pool */

/* What projections would leave, and the model's tables of angles. */
static float query[QUERY_HEADS * TOKENS * DIM], key[KV_HEADS * TOKENS * DIM], value[KV_HEADS * TOKENS * DIM];
static float cosine[CAPACITY * DIM / 2], sine[CAPACITY * DIM / 2];

struct decoder {
    clattn_context *context;
    clattn_plan *append, *prompt, *step; /* made before the first token */
    clattn_append_tensors new_rows;
    clattn_tensors attention;
    cl_mem counts; /* 0, 1, 2, ... CAPACITY: where rows start and how long the sequence is, by an offset alone */
};

/* ---- one step ---- */

/* Tokens first .. first + rows, whose queries, keys and values the projections left on the device. Does not wait. */
static void decode(struct decoder *decoder, int64_t first, int64_t rows)
{
    const cl_command_queue queue = clattn_context_queue(decoder->context); /* in order */
    clattn_append_tensors *new_rows = &decoder->new_rows;
    clattn_tensors *attention = &decoder->attention;
    clattn_cache_call append = CLATTN_CACHE_CALL_INIT;
    clattn_call forward = CLATTN_CALL_INIT;

    append.query_len = rows;
    new_rows->query.offset = new_rows->query_out.offset = first * DIM;
    new_rows->key.offset = new_rows->value.offset = first * DIM;
    new_rows->starts.offset = first; /* the number there is `first` */
    must(clattn_enqueue_append(decoder->append, queue, &append, new_rows, 0, NULL, NULL));

    forward.query_len = rows;
    forward.key_len = first + rows;
    attention->query.offset = attention->out.offset = first * DIM;
    attention->key_lengths.offset = first + rows;
    must(
        clattn_enqueue_forward(rows == 1 ? decoder->step : decoder->prompt, queue, &forward, attention, 0, NULL, NULL));
}

/* ---- plans ---- */

static clattn_plan *plan_append(clattn_context *context)
{
    clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    clattn_plan *plan;
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
    must(clattn_append_plan_create(context, &problem, &plan));
    return plan;
}

static clattn_plan *plan_attention(clattn_context *context, int64_t rows)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    problem.query_heads = QUERY_HEADS;
    problem.kv_heads = KV_HEADS;
    problem.query_len = rows;
    problem.key_len = CAPACITY; /* the most that a call may have */
    problem.head_dim = DIM;
    problem.key_type = problem.value_type = CLATTN_Q8_0;
    problem.features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    problem.page_size = PAGE;
    problem.pages = PAGES;
    problem.causal = rows > 1;                     /* one query sees all keys that there are: nothing to mask */
    problem.alignment = CLATTN_ALIGN_BOTTOM_RIGHT; /* the last query stands at the sequence's last key */
    must(clattn_plan_create(context, &problem, &plan));
    return plan;
}

/* ---- memory ---- */

static void place(struct decoder *decoder)
{
    static int32_t counts[CAPACITY + 1];
    const size_t pool_bytes = (size_t)PAGES * KV_HEADS * PAGE * (DIM / 32) * BLOCK_BYTES;
    clattn_context *context = decoder->context;
    clattn_append_tensors *t = &decoder->new_rows;
    clattn_tensors *a = &decoder->attention;
    for (int32_t i = 0; i <= CAPACITY; ++i) {
        counts[i] = i;
    }
    t->query = clattn_tensor_bhsd(device_buffer(context, sizeof(query), query), QUERY_HEADS, TOKENS, DIM);
    t->query_out = t->query; /* in place */
    t->key = clattn_tensor_bhsd(device_buffer(context, sizeof(key), key), KV_HEADS, TOKENS, DIM);
    t->value = clattn_tensor_bhsd(device_buffer(context, sizeof(value), value), KV_HEADS, TOKENS, DIM);
    t->key_cache = clattn_tensor_bhsd(device_buffer(context, pool_bytes, NULL), KV_HEADS, PAGE, DIM);
    t->value_cache = clattn_tensor_bhsd(device_buffer(context, pool_bytes, NULL), KV_HEADS, PAGE, DIM);
    t->cosine = clattn_tensor_bhsd(device_buffer(context, sizeof(cosine), cosine), 1, CAPACITY, DIM / 2);
    t->sine = clattn_tensor_bhsd(device_buffer(context, sizeof(sine), sine), 1, CAPACITY, DIM / 2);
    t->starts.buffer = decoder->counts = device_buffer(context, sizeof(counts), counts);
    t->page_table.buffer = device_buffer(context, sizeof(page_table), page_table);
    t->page_table.stride[3] = 1;
    a->query = t->query;
    a->key = t->key_cache;
    a->value = t->value_cache;
    a->page_table = t->page_table;
    a->key_lengths.buffer = decoder->counts;
    a->out = clattn_tensor_bhsd(device_buffer(context, sizeof(query), NULL), QUERY_HEADS, TOKENS, DIM);
    const size_t of_prompt = clattn_plan_workspace(decoder->prompt), of_step = clattn_plan_workspace(decoder->step);
    a->workspace = device_buffer(context, of_prompt > of_step ? of_prompt : of_step, NULL);
}

static void decoder_close(struct decoder *decoder)
{
    const clattn_append_tensors *t = &decoder->new_rows;
    const clattn_tensors *a = &decoder->attention;
    const cl_mem buffers[] = { t->query.buffer, t->key.buffer,       t->value.buffer,       t->cosine.buffer,
                               t->sine.buffer,  t->key_cache.buffer, t->value_cache.buffer, t->page_table.buffer,
                               a->out.buffer,   a->workspace,        decoder->counts };
    for (size_t i = 0; i < COUNT(buffers); ++i) {
        clReleaseMemObject(buffers[i]);
    }
    clattn_plan_destroy(decoder->append);
    clattn_plan_destroy(decoder->prompt);
    clattn_plan_destroy(decoder->step);
    clattn_context_destroy(decoder->context);
}

/* ---- what is right ---- */

/* All tokens at once, in float32, by the reference. */
static void compute_right(float *out)
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
    static float out[QUERY_HEADS * TOKENS * DIM], right[QUERY_HEADS * TOKENS * DIM];
    struct decoder decoder = { .new_rows = CLATTN_APPEND_TENSORS_INIT, .attention = CLATTN_TENSORS_INIT };
    fill(query, COUNT(query), 1);
    fill(key, COUNT(key), 2);
    fill(value, COUNT(value), 3);
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT; /* of the model: its base, its scaling */
    must(clattn_rotary_table(&scaling, DIM, CAPACITY, NULL, cosine, sine));

    must(clattn_context_open(NULL, NULL, &decoder.context));
    decoder.append = plan_append(decoder.context);
    decoder.prompt = plan_attention(decoder.context, PROMPT);
    decoder.step = plan_attention(decoder.context, 1);
    place(&decoder);

    decode(&decoder, 0, PROMPT);
    for (int64_t token = PROMPT; token < TOKENS; ++token) {
        decode(&decoder, token, 1);
    }
    read_buffer(clattn_context_queue(decoder.context), decoder.attention.out.buffer, sizeof(out), out, 0, NULL);
    compute_right(right);
    compare("prompt and steps over q8_0 pages", out, right, COUNT(out), 0.02); /* 8 bits a key and a value */
    decoder_close(&decoder);
    return 0;
}
