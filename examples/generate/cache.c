#include "cache.h"

#include "../example.h"
#include "failure.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- plans ---- */

static clattn_plan *append_plan(const struct cache *cache, int64_t sequences, int64_t rows)
{
    const struct cache_options *options = &cache->options;
    clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    clattn_plan *plan;
    problem.pairs = CLATTN_PAIRS_INTERLEAVED; /* GGUF files of this architecture have their weights permuted so */
    problem.key_type = options->key_type;
    problem.value_type = options->value_type;
    problem.batch = sequences;
    problem.query_heads = cache->model->heads;
    problem.kv_heads = cache->model->kv_heads;
    problem.query_len = rows;
    problem.head_dim = cache->model->head_dim;
    problem.positions = options->context;
    problem.capacity = cache->rows;
    problem.features = CLATTN_WITH_STARTS | CLATTN_WITH_ROTARY;
    if (options->kind == CACHE_PAGED) {
        problem.features |= CLATTN_WITH_PAGES;
        problem.capacity = options->context;
        problem.page_size = options->page_size;
        problem.pages = cache->pages;
    }
    if (options->kind == CACHE_RING) {
        problem.ring = cache->rows;
        problem.pinned = options->pinned;
    }
    must(clattn_append_plan_create(cache->context, &problem, &plan));
    return plan;
}

static clattn_plan *attention_plan(const struct cache *cache, int64_t sequences, int64_t rows, clattn_weights weights)
{
    const struct cache_options *options = &cache->options;
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    problem.key_type = options->key_type;
    problem.value_type = options->value_type;
    problem.batch = sequences;
    problem.query_heads = cache->model->heads;
    problem.kv_heads = cache->model->kv_heads;
    problem.query_len = rows;
    problem.key_len = options->context;
    problem.head_dim = cache->model->head_dim;
    problem.features = CLATTN_WITH_KEY_LENGTHS;
    problem.causal = 1;
    problem.alignment = CLATTN_ALIGN_BOTTOM_RIGHT; /* the last row is the newest token */
    problem.window_left = options->window;
    problem.always_visible_keys = options->pinned;
    problem.weights = weights;
    if (options->kind == CACHE_PAGED) {
        problem.features |= CLATTN_WITH_PAGES;
        problem.page_size = options->page_size;
        problem.pages = cache->pages;
    }
    if (options->kind == CACHE_RING) {
        problem.ring = cache->rows;
    }
    must(clattn_plan_create(cache->context, &problem, &plan));
    return plan;
}

static struct cache_plans new_plans(const struct cache *cache, int64_t sequences, int64_t rows)
{
    const struct cache_plans plans = { sequences, rows, append_plan(cache, sequences, rows),
                                       attention_plan(cache, sequences, rows, CLATTN_WEIGHTS_NONE) };
    return plans;
}

/* ---- memory ---- */

/* Whole pages of the common beginning are the same pages for all sequences; behind them each has its own. */
static cl_mem new_page_table(struct cache *cache)
{
    const int64_t sequences = cache->options.sequences, shared = cache->options.shared_rows / cache->options.page_size;
    int32_t *table = allocate((size_t)(sequences * cache->columns) * sizeof(*table));
    int32_t next = (int32_t)shared;
    for (int64_t sequence = 0; sequence < sequences; ++sequence) {
        for (int64_t column = 0; column < cache->columns; ++column) {
            table[sequence * cache->columns + column] = column < shared ? (int32_t)column : next++;
        }
    }
    cache->pages = next;
    const cl_mem buffer = device_buffer(cache->context, (size_t)(sequences * cache->columns) * sizeof(*table), table);
    free(table);
    return buffer;
}

static void choose_sizes(struct cache *cache)
{
    struct cache_options *options = &cache->options;
    const int64_t seen = options->pinned + options->window;
    cache->chunk = least(CHUNK, options->context);
    cache->rows = options->context;
    cache->page_table = NULL;
    if (options->kind == CACHE_PAGED) {
        cache->rows = options->page_size;
        cache->columns = (options->context + options->page_size - 1) / options->page_size;
        if (cache->columns * options->sequences > INT32_MAX) {
            fail("pages: more than %d", INT32_MAX);
        }
        cache->page_table = new_page_table(cache);
    }
    if (options->kind == CACHE_RING && options->window >= 0 && seen + 1 < options->context) {
        /* Rows of a chunk overwrite what no row of it sees; small chunks keep the ring small. */
        cache->chunk = least(16, options->context - seen);
        cache->rows = seen + cache->chunk;
    }
}

static size_t rows_bytes(const struct cache *cache, clattn_type type)
{
    const size_t bytes = clattn_row_bytes(type, cache->model->head_dim);
    if (!bytes) {
        fail("%s: rows of heads have %lld columns, no whole blocks of %lld", clattn_type_name(type),
             (long long)cache->model->head_dim, (long long)clattn_type_columns(type));
    }
    return bytes * (size_t)cache->model->kv_heads;
}

size_t cache_token_bytes(const struct cache *cache)
{
    return (size_t)cache->model->layers *
           (rows_bytes(cache, cache->options.key_type) + rows_bytes(cache, cache->options.value_type));
}

static void make_room(struct cache *cache)
{
    const struct model *model = cache->model;
    const struct cache_options *options = &cache->options;
    const size_t units = (size_t)(options->kind == CACHE_PAGED ? cache->pages : options->sequences);
    const size_t rows = units * (size_t)cache->rows, numbers = (size_t)options->sequences * sizeof(int32_t);
    cache->keys = allocate((size_t)model->layers * sizeof(cl_mem));
    cache->values = allocate((size_t)model->layers * sizeof(cl_mem));
    for (int64_t layer = 0; layer < model->layers; ++layer) {
        cache->keys[layer] = device_buffer(cache->context, rows * rows_bytes(cache, options->key_type), NULL);
        cache->values[layer] = device_buffer(cache->context, rows * rows_bytes(cache, options->value_type), NULL);
    }
    cache->starts = device_buffer(cache->context, numbers, NULL);
    cache->lengths = device_buffer(cache->context, numbers, NULL);
}

static void make_rotary_tables(struct cache *cache)
{
    const int64_t rows = cache->options.context, columns = cache->model->head_dim;
    const size_t bytes = (size_t)(rows * columns / 2) * sizeof(float);
    float *cosine = allocate(bytes), *sine = allocate(bytes);
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT;
    scaling.base = cache->model->rotary_base;
    must(clattn_rotary_table(&scaling, columns, rows, NULL, cosine, sine));
    cache->cosine = device_buffer(cache->context, bytes, cosine);
    cache->sine = device_buffer(cache->context, bytes, sine);
    free(cosine);
    free(sine);
}

void cache_open(struct cache *cache, const struct cache_options *options, const struct model *model,
                clattn_context *context)
{
    const struct cache none = { 0 };
    *cache = none;
    cache->options = *options;
    cache->model = model;
    cache->context = context;
    choose_sizes(cache);
    make_room(cache);
    make_rotary_tables(cache);
    cache->prompt = new_plans(cache, 1, cache->chunk);
    cache->step = new_plans(cache, options->sequences, 1);
    const size_t of_prompt = clattn_plan_workspace(cache->prompt.attention);
    const size_t of_step = clattn_plan_workspace(cache->step.attention);
    cache->workspace = device_buffer(context, of_prompt > of_step ? of_prompt : of_step, NULL);
}

static void close_plans(struct cache_plans *plans)
{
    clattn_plan_destroy(plans->append);
    clattn_plan_destroy(plans->attention);
}

void cache_close(struct cache *cache)
{
    const cl_mem buffers[] = { cache->cosine,     cache->sine,      cache->starts, cache->lengths,
                               cache->page_table, cache->workspace, cache->weights };
    for (int64_t layer = 0; layer < cache->model->layers; ++layer) {
        clReleaseMemObject(cache->keys[layer]);
        clReleaseMemObject(cache->values[layer]);
    }
    for (size_t i = 0; i < COUNT(buffers); ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
    close_plans(&cache->prompt);
    close_plans(&cache->step);
    clattn_plan_destroy(cache->weights_plan);
    free(cache->keys);
    free(cache->values);
}

/* ---- rows ---- */

void cache_place(struct cache *cache, const struct cache_rows *rows, const int32_t *starts)
{
    const cl_command_queue queue = clattn_context_queue(cache->context);
    const size_t bytes = (size_t)rows->sequences * sizeof(int32_t), at = (size_t)rows->first * sizeof(int32_t);
    int32_t *lengths = allocate(bytes);
    for (int64_t i = 0; i < rows->sequences; ++i) {
        lengths[i] = starts[i] + (int32_t)rows->rows;
    }
    must_cl(clEnqueueWriteBuffer(queue, cache->starts, CL_TRUE, at, bytes, starts, 0, NULL, NULL));
    must_cl(clEnqueueWriteBuffer(queue, cache->lengths, CL_TRUE, at, bytes, lengths, 0, NULL, NULL));
    free(lengths);
}

/* The cache of a layer, from the first of these sequences on: all pages of a pool, else the rows of a sequence each. */
static clattn_tensor cache_tensor(const struct cache *cache, const struct cache_rows *rows, cl_mem buffer)
{
    clattn_tensor tensor = clattn_tensor_bhsd(buffer, cache->model->kv_heads, cache->rows, cache->model->head_dim);
    tensor.offset = cache->page_table ? 0 : rows->first * tensor.stride[0];
    return tensor;
}

static clattn_tensor page_table(const struct cache *cache, const struct cache_rows *rows)
{
    clattn_tensor table = CLATTN_TENSOR_NONE;
    table.buffer = cache->page_table;
    table.stride[0] = cache->page_table ? cache->columns : 0;
    table.stride[3] = cache->page_table ? 1 : 0;
    table.offset = rows->first * table.stride[0];
    return table;
}

static clattn_tensor numbers(cl_mem buffer, const struct cache_rows *rows)
{
    clattn_tensor tensor = CLATTN_TENSOR_NONE;
    tensor.buffer = buffer;
    tensor.offset = rows->first;
    return tensor;
}

static void append(struct cache *cache, const struct cache_rows *rows, int64_t layer, clattn_tensor query, cl_mem key,
                   cl_mem value)
{
    const struct model *model = cache->model;
    const clattn_plan *plan = rows->rows == 1 && rows->sequences == cache->step.sequences ? cache->step.append
                                                                                          : cache->prompt.append;
    clattn_append_tensors tensors = CLATTN_APPEND_TENSORS_INIT;
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    call.query_len = rows->rows;
    tensors.query = tensors.query_out = query;
    tensors.key = clattn_tensor_bshd(key, model->kv_heads, rows->rows, model->head_dim);
    tensors.value = clattn_tensor_bshd(value, model->kv_heads, rows->rows, model->head_dim);
    tensors.key_cache = cache_tensor(cache, rows, cache->keys[layer]);
    tensors.value_cache = cache_tensor(cache, rows, cache->values[layer]);
    tensors.cosine = clattn_tensor_bhsd(cache->cosine, 1, cache->options.context, model->head_dim / 2);
    tensors.sine = clattn_tensor_bhsd(cache->sine, 1, cache->options.context, model->head_dim / 2);
    tensors.starts = numbers(cache->starts, rows);
    tensors.page_table = page_table(cache, rows);
    must(clattn_enqueue_append(plan, clattn_context_queue(cache->context), &call, &tensors, 0, NULL, NULL));
}

/* The plan that also tells the weights, and room for them; both are made once. */
static const clattn_plan *weights_plan(struct cache *cache)
{
    if (!cache->weights_plan) {
        cache->weights_plan = attention_plan(cache, 1, 1, CLATTN_WEIGHTS_SOFTMAX);
        cache->weights =
            device_buffer(cache->context, (size_t)(cache->model->heads * cache->options.context) * sizeof(float), NULL);
        clReleaseMemObject(cache->workspace);
        const size_t room[] = { clattn_plan_workspace(cache->weights_plan),
                                clattn_plan_workspace(cache->prompt.attention),
                                clattn_plan_workspace(cache->step.attention) };
        const size_t two = room[0] > room[1] ? room[0] : room[1];
        cache->workspace = device_buffer(cache->context, two > room[2] ? two : room[2], NULL);
    }
    return cache->weights_plan;
}

void cache_attend(struct cache *cache, const struct cache_rows *rows, int64_t layer, cl_mem query, cl_mem key,
                  cl_mem value, cl_mem out)
{
    const struct model *model = cache->model;
    const int is_step = rows->rows == 1 && rows->sequences == cache->step.sequences;
    const clattn_plan *plan = rows->tell_weights ? weights_plan(cache)
                              : is_step          ? cache->step.attention
                                                 : cache->prompt.attention;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    call.query_len = rows->rows;
    call.key_len = rows->longest;
    tensors.query = clattn_tensor_bshd(query, model->heads, rows->rows, model->head_dim);
    tensors.out = clattn_tensor_bshd(out, model->heads, rows->rows, model->head_dim);
    append(cache, rows, layer, tensors.query, key, value);
    tensors.key = cache_tensor(cache, rows, cache->keys[layer]);
    tensors.value = cache_tensor(cache, rows, cache->values[layer]);
    tensors.key_lengths = numbers(cache->lengths, rows);
    tensors.page_table = page_table(cache, rows);
    tensors.workspace = cache->workspace;
    if (rows->tell_weights) {
        tensors.weights = clattn_tensor_bhsd(cache->weights, model->heads, 1, rows->longest);
    }
    must(clattn_enqueue_forward(plan, clattn_context_queue(cache->context), &call, &tensors, 0, NULL, NULL));
}
