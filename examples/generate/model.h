/* A llama-architecture model: its numbers, and its weights as float32 on the device. */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H

#include "gguf.h"

/* Matrices are [outputs, inputs], as the file has them. */
struct layer {
    cl_mem attention_norm, query, key, value, attention_out;
    cl_mem feed_norm, gate, up, down;
};

struct model {
    int64_t layers, width, heads, kv_heads, head_dim, inner, vocabulary, context;
    double rotary_base;
    float epsilon;
    cl_mem embedding, out_norm, out; /* `out` is the embedding where the file has none of its own */
    struct layer *layer;
};

/* The numbers alone, and that the file has every tensor of the right shape; then the weights too. */
void model_describe(struct model *model, const struct gguf *file);
void model_load(struct model *model, const struct gguf *file, clattn_context *context);
void model_free(struct model *model);

#endif
