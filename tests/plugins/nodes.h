/* FLASH_ATTN_EXT nodes with random inputs, and what they must give: float64 attention of the same inputs. */
#ifndef TESTS_PLUGINS_NODES_H
#define TESTS_PLUGINS_NODES_H

#include "ggml-backend.h"
#include "ggml.h"

#include <stdint.h>

#define ERROR_BOUND 1e-5 /* of a node, beside float64 attention */

/* What the mask of a node says. Rows stand at the last keys, but for PADDED's unused tail of the cache. */
enum mask_kind {
    MASK_NONE,
    MASK_CAUSAL,
    MASK_PADDED,    /* causal, and the last quarter of the cache is unused, with NaN in it */
    MASK_WINDOW,    /* causal, 20 keys back */
    MASK_BLIND,     /* causal, and every third row sees nothing */
    MASK_NOBODY,    /* no row sees anything */
    MASK_HOLES,     /* causal, and every fifth key is hidden */
    MASK_NUMBERS,   /* numbers are added, and some keys hidden */
    MASK_DISTANCE,  /* causal, j - position is added: ALiBi's */
    MASK_STEEP,     /* twice that */
    MASK_SAME,      /* as if all rows stood at the first one's key: distances, of no causal order */
    MASK_LATE,      /* row i sees the keys from i on */
    MASK_BOTH_WAYS, /* -|j - position|, all keys seen */
    MASK_CHOSEN,    /* one key of eight, others in other rows, none in some; n_kv_max says how many at most */
    MASK_CHOSEN_NUMBERS,
    MASK_CHOSEN_WRONG /* n_kv_max says one */
};

struct node_case {
    const char *name;
    enum ggml_type key_type, value_type;
    int64_t head_dim, head_dim_v, heads, kv_heads, rows, keys, batch;
    enum mask_kind mask;
    int64_t mask_heads, mask_batch;
    int has_sinks, is_permuted; /* keys and values as llama.cpp's cache has them: rows before heads */
    float max_bias, softcap;
};

struct node {
    struct ggml_context *context;
    struct ggml_tensor *q, *k, *v, *mask, *sinks, *out;
    struct ggml_cgraph *graph;
};

/* A node without data. The caller ends its context by ggml_free. */
void node_new(struct node *node, const struct node_case *of);

/* Fills the inputs, which must have been allocated in the host's memory. Equal seeds give equal values. */
void node_fill(struct node *node, const struct node_case *of, unsigned seed);

/* The largest difference between what is in node->out and float64 attention of the inputs; NaN counts as infinite. */
double node_error(const struct node *node, const struct node_case *of);

#endif
