/* The forward pass: tokens in, logits of the next ones out. */
#ifndef GENERATE_ENGINE_H
#define GENERATE_ENGINE_H

#include "cache.h"

struct engine {
    struct model model;
    struct cache cache;
    clattn_context *context;
    cl_program program;
    cl_kernel multiply, normalise, gate_up;
    cl_mem x, normal, query, key, value, mixed, gate, up, logits; /* rows of the tokens of one call */
    float *host_logits;
    double *weights; /* of the last call that told them, a mean over heads and the layers that were asked for */
};

/* Loads the weights and plans; `file` may be closed then. */
void engine_open(struct engine *engine, const struct gguf *file, const struct cache_options *options);
void engine_close(struct engine *engine);

/* `count` tokens of one sequence, the first at position `start`. Returns logits [rows, vocabulary] on the host, which
 * stand until the next call: of the last token, or where `all` of each (then count <= the cache's chunk). */
const float *engine_prompt(struct engine *engine, int64_t sequence, int64_t start, const int32_t *tokens, int64_t count,
                           int all);

/* A token of each sequence, at the sequence's position. Returns logits [sequences, vocabulary]. */
const float *engine_step(struct engine *engine, const int32_t *tokens, const int32_t *positions);

/* Computes the token at a position again, the last of its sequence so far, and returns what it attends to:
 * position + 1 weights, a mean over heads and layers, or over the heads of one layer (layer >= 0). */
const double *engine_weights(struct engine *engine, int64_t sequence, int64_t position, int32_t token, int64_t layer);

#endif
