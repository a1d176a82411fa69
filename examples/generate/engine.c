#include "engine.h"

#include "../example.h"
#include "failure.h"
#include "kernels.h"

#include <string.h>

/* ---- opening ---- */

static cl_kernel new_kernel(cl_program program, const char *name)
{
    cl_int error;
    const cl_kernel kernel = clCreateKernel(program, name, &error);
    must_cl(error);
    return kernel;
}

static void build_kernels(struct engine *engine)
{
    const cl_device_id device = clattn_context_device(engine->context);
    const char *source = kernel_source;
    cl_int error;
    engine->program = clCreateProgramWithSource(clattn_context_cl(engine->context), 1, &source, NULL, &error);
    must_cl(error);
    if (clBuildProgram(engine->program, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
        static char log[4096];
        clGetProgramBuildInfo(engine->program, device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
        fail("the kernels do not compile: %s", log);
    }
    engine->multiply = new_kernel(engine->program, "multiply");
    engine->normalise = new_kernel(engine->program, "normalise");
    engine->gate_up = new_kernel(engine->program, "gate_up");
}

static cl_mem rows_of(const struct engine *engine, int64_t rows, int64_t columns)
{
    return device_buffer(engine->context, (size_t)(rows * columns) * sizeof(float), NULL);
}

void engine_open(struct engine *engine, const struct gguf *file, const struct cache_options *options)
{
    const struct model *model = &engine->model;
    model_describe(&engine->model, file);
    if (options->context > model->context) {
        fail("%lld tokens: the model has positions for %lld", (long long)options->context, (long long)model->context);
    }
    must(clattn_context_open(NULL, NULL, &engine->context));
    build_kernels(engine);
    model_load(&engine->model, file, engine->context);
    cache_open(&engine->cache, options, model, engine->context);
    const int64_t chunk = engine->cache.chunk, rows = chunk > options->sequences ? chunk : options->sequences;
    engine->x = rows_of(engine, rows, model->width);
    engine->normal = rows_of(engine, rows, model->width);
    engine->query = rows_of(engine, rows, model->heads * model->head_dim);
    engine->mixed = rows_of(engine, rows, model->heads * model->head_dim);
    engine->key = rows_of(engine, rows, model->kv_heads * model->head_dim);
    engine->value = rows_of(engine, rows, model->kv_heads * model->head_dim);
    engine->gate = rows_of(engine, rows, model->inner);
    engine->up = rows_of(engine, rows, model->inner);
    engine->logits = rows_of(engine, rows, model->vocabulary);
    engine->host_logits = allocate((size_t)(rows * model->vocabulary) * sizeof(float));
    engine->weights = allocate((size_t)options->context * sizeof(double));
}

void engine_close(struct engine *engine)
{
    const cl_mem buffers[] = { engine->x,     engine->normal, engine->query, engine->key,   engine->value,
                               engine->mixed, engine->gate,   engine->up,    engine->logits };
    for (size_t i = 0; i < COUNT(buffers); ++i) {
        clReleaseMemObject(buffers[i]);
    }
    clReleaseKernel(engine->multiply);
    clReleaseKernel(engine->normalise);
    clReleaseKernel(engine->gate_up);
    clReleaseProgram(engine->program);
    cache_close(&engine->cache);
    model_free(&engine->model);
    clattn_context_destroy(engine->context);
    free(engine->host_logits);
    free(engine->weights);
}

/* ---- the layers ---- */

static void set_memory(cl_kernel kernel, cl_uint index, cl_mem buffer)
{
    must_cl(clSetKernelArg(kernel, index, sizeof(buffer), &buffer));
}

static void set_number(cl_kernel kernel, cl_uint index, int64_t number)
{
    const cl_int value = (cl_int)number;
    must_cl(clSetKernelArg(kernel, index, sizeof(value), &value));
}

static void run(const struct engine *engine, cl_kernel kernel, size_t items, size_t group)
{
    must_cl(clEnqueueNDRangeKernel(clattn_context_queue(engine->context), kernel, 1, NULL, &items,
                                   group ? &group : NULL, 0, NULL, NULL));
}

static void multiply(const struct engine *engine, cl_mem weights, int64_t columns, int64_t outputs, cl_mem x,
                     int64_t rows, cl_mem out, int add)
{
    enum { OUTPUTS = 4, GROUP = 16 }; /* of a work-item; work-items */
    const size_t items = (size_t)((outputs + OUTPUTS - 1) / OUTPUTS);
    set_memory(engine->multiply, 0, weights);
    set_memory(engine->multiply, 1, x);
    set_memory(engine->multiply, 2, out);
    set_number(engine->multiply, 3, columns / 16);
    set_number(engine->multiply, 4, outputs);
    set_number(engine->multiply, 5, rows);
    set_number(engine->multiply, 6, add);
    run(engine, engine->multiply, (items + GROUP - 1) / GROUP * GROUP, GROUP);
}

static void normalise(const struct engine *engine, cl_mem weights, int64_t rows)
{
    enum { GROUP = 64 };
    set_memory(engine->normalise, 0, engine->x);
    set_memory(engine->normalise, 1, weights);
    set_memory(engine->normalise, 2, engine->normal);
    set_number(engine->normalise, 3, engine->model.width);
    must_cl(clSetKernelArg(engine->normalise, 4, sizeof(float), &engine->model.epsilon));
    run(engine, engine->normalise, (size_t)rows * GROUP, GROUP);
}

static void add_weights(struct engine *engine, const struct cache_rows *place)
{
    const int64_t heads = engine->model.heads;
    const size_t bytes = (size_t)(heads * place->longest) * sizeof(float);
    float *weights = allocate(bytes);
    read_buffer(clattn_context_queue(engine->context), engine->cache.weights, bytes, weights, 0, NULL);
    for (int64_t head = 0; head < heads; ++head) {
        for (int64_t key = 0; key < place->longest; ++key) {
            engine->weights[key] += (double)weights[head * place->longest + key];
        }
    }
    free(weights);
}

/* x = x + attention(x), then x = x + feed(x). `weights_of`: the layer whose weights are wanted; -1: of all. */
static void compute_layer(struct engine *engine, int64_t number, const struct cache_rows *place, int64_t weights_of)
{
    const struct model *model = &engine->model;
    const struct layer *layer = &model->layer[number];
    const int64_t rows = place->sequences * place->rows, width = model->width, inner = model->inner;
    const int64_t queries = model->heads * model->head_dim, keys = model->kv_heads * model->head_dim;
    struct cache_rows told = *place;
    told.tell_weights = place->tell_weights && (weights_of < 0 || weights_of == number);
    normalise(engine, layer->attention_norm, rows);
    multiply(engine, layer->query, width, queries, engine->normal, rows, engine->query, 0);
    multiply(engine, layer->key, width, keys, engine->normal, rows, engine->key, 0);
    multiply(engine, layer->value, width, keys, engine->normal, rows, engine->value, 0);
    cache_attend(&engine->cache, &told, number, engine->query, engine->key, engine->value, engine->mixed);
    if (told.tell_weights) {
        add_weights(engine, place);
    }
    multiply(engine, layer->attention_out, queries, width, engine->mixed, rows, engine->x, 1);
    normalise(engine, layer->feed_norm, rows);
    multiply(engine, layer->gate, width, inner, engine->normal, rows, engine->gate, 0);
    multiply(engine, layer->up, width, inner, engine->normal, rows, engine->up, 0);
    set_memory(engine->gate_up, 0, engine->gate);
    set_memory(engine->gate_up, 1, engine->up);
    run(engine, engine->gate_up, (size_t)(rows * inner), 0);
    multiply(engine, layer->down, inner, width, engine->gate, rows, engine->x, 1);
}

/* Rows of tokens through all layers: engine->x is what the last one leaves. */
static void compute(struct engine *engine, const struct cache_rows *place, const int32_t *tokens, const int32_t *starts,
                    int64_t weights_of)
{
    const size_t row_bytes = (size_t)engine->model.width * sizeof(float);
    const int64_t rows = place->sequences * place->rows;
    for (int64_t row = 0; row < rows; ++row) {
        must_cl(clEnqueueCopyBuffer(clattn_context_queue(engine->context), engine->model.embedding, engine->x,
                                    (size_t)tokens[row] * row_bytes, (size_t)row * row_bytes, row_bytes, 0, NULL,
                                    NULL));
    }
    cache_place(&engine->cache, place, starts);
    for (int64_t layer = 0; layer < engine->model.layers; ++layer) {
        compute_layer(engine, layer, place, weights_of);
    }
}

/* Logits of `count` rows of x from row `first` on. */
static const float *read_logits(struct engine *engine, int64_t first, int64_t count)
{
    const struct model *model = &engine->model;
    const cl_command_queue queue = clattn_context_queue(engine->context);
    const size_t row_bytes = (size_t)model->width * sizeof(float);
    if (first > 0) { /* one row, to where rows are normalised from */
        must_cl(clEnqueueCopyBuffer(queue, engine->x, engine->x, (size_t)first * row_bytes, 0,
                                    (size_t)count * row_bytes, 0, NULL, NULL));
    }
    normalise(engine, model->out_norm, count);
    multiply(engine, model->out, model->width, model->vocabulary, engine->normal, count, engine->logits, 0);
    read_buffer(queue, engine->logits, (size_t)(count * model->vocabulary) * sizeof(float), engine->host_logits, 0,
                NULL);
    return engine->host_logits;
}

/* ---- calls ---- */

const float *engine_prompt(struct engine *engine, int64_t sequence, int64_t start, const int32_t *tokens, int64_t count,
                           int all)
{
    const int64_t chunk = engine->cache.chunk;
    int64_t done = 0, rows = 0;
    for (; done < count; done += rows) {
        const int32_t place = (int32_t)(start + done);
        rows = count - done < chunk ? count - done : chunk;
        const struct cache_rows here = { sequence, 1, rows, place + rows, 0 };
        compute(engine, &here, tokens + done, &place, -1);
    }
    return all ? read_logits(engine, 0, rows) : read_logits(engine, rows - 1, 1);
}

const float *engine_step(struct engine *engine, const int32_t *tokens, const int32_t *positions)
{
    struct cache_rows here = { 0, engine->cache.options.sequences, 1, 0, 0 };
    for (int64_t i = 0; i < here.sequences; ++i) {
        here.longest = positions[i] + 1 > here.longest ? positions[i] + 1 : here.longest;
    }
    compute(engine, &here, tokens, positions, -1);
    return read_logits(engine, 0, here.sequences);
}

const double *engine_weights(struct engine *engine, int64_t sequence, int64_t position, int32_t token, int64_t layer)
{
    const struct cache_rows here = { sequence, 1, 1, position + 1, 1 };
    const int32_t start = (int32_t)position;
    const double shares = (double)engine->model.heads * (layer < 0 ? (double)engine->model.layers : 1.0);
    memset(engine->weights, 0, (size_t)(position + 1) * sizeof(double));
    compute(engine, &here, &token, &start, layer);
    for (int64_t key = 0; key <= position; ++key) {
        engine->weights[key] /= shares;
    }
    return engine->weights;
}
