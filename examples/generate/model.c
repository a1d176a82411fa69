#include "model.h"

#include "../example.h"
#include "failure.h"

/* Where a tensor of a layer goes, and its shape; names of the file are blk.N.NAME.weight. */
struct tensor_row {
    const char *name;
    size_t place;
    int64_t columns, rows;
};

enum { LAYER_TENSORS = 9 };

static void layer_tensors(const struct model *model, struct tensor_row rows[LAYER_TENSORS])
{
    const int64_t width = model->width, inner = model->inner, queries = model->heads * model->head_dim;
    const int64_t keys = model->kv_heads * model->head_dim;
    const struct tensor_row all[LAYER_TENSORS] = {
        { "attn_norm", offsetof(struct layer, attention_norm), width, 1 },
        { "attn_q", offsetof(struct layer, query), width, queries },
        { "attn_k", offsetof(struct layer, key), width, keys },
        { "attn_v", offsetof(struct layer, value), width, keys },
        { "attn_output", offsetof(struct layer, attention_out), queries, width },
        { "ffn_norm", offsetof(struct layer, feed_norm), width, 1 },
        { "ffn_gate", offsetof(struct layer, gate), width, inner },
        { "ffn_up", offsetof(struct layer, up), width, inner },
        { "ffn_down", offsetof(struct layer, down), inner, width },
    };
    for (int i = 0; i < LAYER_TENSORS; ++i) {
        rows[i] = all[i];
    }
}

static const struct gguf_tensor *layer_tensor(const struct gguf *file, int64_t layer, const struct tensor_row *row)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%lld.%s.weight", (long long)layer, row->name);
    return gguf_matrix(file, name, row->columns, row->rows, 0);
}

/* The kernel multiplies 16 columns at once. */
static void check_width(const struct gguf *file, const char *what, int64_t columns)
{
    if (columns % 16) {
        fail("%s: %s is %lld; this engine takes multiples of 16", file->path, what, (long long)columns);
    }
}

/* What other models of the architecture have and this engine does not compute. */
static void refuse_others(const struct gguf *file)
{
    if (!gguf_text_is(file, "general.architecture", "llama")) {
        fail("%s: general.architecture is not llama", file->path);
    }
    if (gguf_find(file, "llama.rope.scaling.type") && !gguf_text_is(file, "llama.rope.scaling.type", "none")) {
        fail("%s: llama.rope.scaling.type: this engine scales no positions", file->path);
    }
    for (uint64_t i = 0; i < file->tensor_count; ++i) {
        const struct span name = file->tensors[i].name;
        const int bias = name.length > 5 && span_is((struct span){ name.at + name.length - 5, 5 }, ".bias");
        if (bias || span_is(name, "rope_freqs.weight")) {
            fail("%s: tensor %.*s: this engine has no use for it, and would compute another model", file->path,
                 printable(name.length), name.at);
        }
    }
}

void model_describe(struct model *model, const struct gguf *file)
{
    struct tensor_row rows[LAYER_TENSORS];
    refuse_others(file);
    model->layers = gguf_integer(file, "llama.block_count", 1, 1024, -1);
    model->width = gguf_integer(file, "llama.embedding_length", 16, 1 << 20, -1);
    model->heads = gguf_integer(file, "llama.attention.head_count", 1, 4096, -1);
    model->kv_heads = gguf_integer(file, "llama.attention.head_count_kv", 1, model->heads, model->heads);
    model->inner = gguf_integer(file, "llama.feed_forward_length", 16, 1 << 20, -1);
    model->context = gguf_integer(file, "llama.context_length", 1, 1 << 24, -1);
    model->head_dim = gguf_integer(file, "llama.attention.key_length", 2, 1024, model->width / model->heads);
    model->rotary_base = gguf_find(file, "llama.rope.freq_base") ? gguf_float32(file, "llama.rope.freq_base") : 10000;
    model->epsilon = (float)gguf_float32(file, "llama.attention.layer_norm_rms_epsilon");
    if (!(model->rotary_base > 1 && model->rotary_base < 1e30) || !(model->epsilon >= 0 && model->epsilon < 1)) {
        fail("%s: llama.rope.freq_base %g or layer_norm_rms_epsilon %g is out of range", file->path, model->rotary_base,
             (double)model->epsilon);
    }
    if (model->heads % model->kv_heads || model->head_dim % 2 ||
        gguf_integer(file, "llama.rope.dimension_count", 1, 1 << 20, model->head_dim) != model->head_dim ||
        gguf_integer(file, "llama.attention.value_length", 1, 1 << 20, model->head_dim) != model->head_dim) {
        fail("%s: %lld heads on %lld, of %lld columns: heads come in whole groups, and all columns are turned",
             file->path, (long long)model->heads, (long long)model->kv_heads, (long long)model->head_dim);
    }
    check_width(file, "llama.embedding_length", model->width);
    check_width(file, "llama.feed_forward_length", model->inner);
    check_width(file, "heads by columns", model->heads * model->head_dim);
    model->vocabulary = gguf_array(file, "tokenizer.ggml.tokens", GGUF_STRING)->count > 0
                            ? (int64_t)gguf_array(file, "tokenizer.ggml.tokens", GGUF_STRING)->count
                            : 1;
    gguf_matrix(file, "token_embd.weight", model->width, model->vocabulary, 0);
    gguf_matrix(file, "output.weight", model->width, model->vocabulary, 1);
    gguf_matrix(file, "output_norm.weight", model->width, 1, 0);
    layer_tensors(model, rows);
    for (int64_t layer = 0; layer < model->layers; ++layer) {
        for (int i = 0; i < LAYER_TENSORS; ++i) {
            layer_tensor(file, layer, &rows[i]);
        }
    }
}

/* A tensor as float32 in a buffer of its own. */
static cl_mem load(const struct gguf_tensor *tensor, clattn_context *context)
{
    const size_t row_bytes = clattn_row_bytes(tensor->type, tensor->columns);
    float *values = allocate((size_t)tensor->rows * (size_t)tensor->columns * sizeof(*values));
    for (int64_t row = 0; row < tensor->rows; ++row) {
        must(clattn_dequantise(tensor->type, tensor->columns, tensor->data + (size_t)row * row_bytes, NULL, 0,
                               values + row * tensor->columns));
    }
    const cl_mem buffer =
        device_buffer(context, (size_t)tensor->rows * (size_t)tensor->columns * sizeof(*values), values);
    free(values);
    return buffer;
}

static cl_mem *place(struct layer *layer, const struct tensor_row *row)
{
    return (cl_mem *)(void *)((char *)layer + row->place);
}

void model_load(struct model *model, const struct gguf *file, clattn_context *context)
{
    struct tensor_row rows[LAYER_TENSORS];
    const struct gguf_tensor *out = gguf_matrix(file, "output.weight", model->width, model->vocabulary, 1);
    layer_tensors(model, rows);
    model->embedding = load(gguf_matrix(file, "token_embd.weight", model->width, model->vocabulary, 0), context);
    model->out_norm = load(gguf_matrix(file, "output_norm.weight", model->width, 1, 0), context);
    model->out = out ? load(out, context) : model->embedding;
    model->layer = allocate((size_t)model->layers * sizeof(*model->layer));
    for (int64_t layer = 0; layer < model->layers; ++layer) {
        for (int i = 0; i < LAYER_TENSORS; ++i) {
            *place(&model->layer[layer], &rows[i]) = load(layer_tensor(file, layer, &rows[i]), context);
        }
    }
}

void model_free(struct model *model)
{
    struct tensor_row rows[LAYER_TENSORS];
    layer_tensors(model, rows);
    for (int64_t layer = 0; layer < model->layers; ++layer) {
        for (int i = 0; i < LAYER_TENSORS; ++i) {
            clReleaseMemObject(*place(&model->layer[layer], &rows[i]));
        }
    }
    if (model->out != model->embedding) {
        clReleaseMemObject(model->out);
    }
    clReleaseMemObject(model->embedding);
    clReleaseMemObject(model->out_norm);
    free(model->layer);
}
