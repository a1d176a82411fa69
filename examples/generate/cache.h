/* The keys and values of all sequences and layers, and attention over them: contiguous, in pages of a pool that
 * sequences with the same beginning share, or as a ring. The three differ in a few fields of the problems alone. */
#ifndef GENERATE_CACHE_H
#define GENERATE_CACHE_H

#include "model.h"

#include <clattn_cache.h>

enum cache_kind { CACHE_CONTIGUOUS, CACHE_PAGED, CACHE_RING };

enum { CHUNK = 128 }; /* rows of a prompt that are computed at a time */

struct cache_options {
    enum cache_kind kind;
    clattn_type key_type, value_type;
    int64_t sequences;
    int64_t context;     /* tokens of a sequence, at most */
    int64_t page_size;   /* paged */
    int64_t shared_rows; /* paged: rows of the beginning that all sequences have in common */
    int64_t window;      /* keys before a row that it sees; -1: all */
    int64_t pinned;      /* of a window: the first keys, which all rows see */
};

/* What computes rows of some sequences at once: `sequences` of up to `rows` each. */
struct cache_plans {
    int64_t sequences, rows;
    clattn_plan *append, *attention;
};

struct cache {
    struct cache_options options;
    const struct model *model;
    clattn_context *context;
    int64_t chunk, rows, pages, columns; /* rows: of a sequence, or of a page; columns: of the page table */
    struct cache_plans prompt, step;     /* one sequence with many rows; all sequences with one each */
    clattn_plan *weights_plan; /* one row of one sequence, which tells its weights; made when it is asked for */
    cl_mem *keys, *values;     /* a buffer a layer */
    cl_mem cosine, sine, starts, lengths, page_table, workspace, weights;
};

void cache_open(struct cache *cache, const struct cache_options *options, const struct model *model,
                clattn_context *context);
void cache_close(struct cache *cache);

/* Row i of `rows` rows of sequences first .. first + sequences - 1 is for position starts[s] + i. */
struct cache_rows {
    int64_t first, sequences, rows, longest; /* longest: the most keys that a sequence has with these rows */
    int tell_weights;
};

/* Rows to come: where they are. */
void cache_place(struct cache *cache, const struct cache_rows *rows, const int32_t *starts);

/* Enqueues, for one layer: queries and keys turned, keys and values appended, out = attention. Each has the heads of a
 * row side by side. With tell_weights cache->weights has [heads, longest] float32 then. */
void cache_attend(struct cache *cache, const struct cache_rows *rows, int64_t layer, cl_mem query, cl_mem key,
                  cl_mem value, cl_mem out);

/* Bytes of keys and values that are kept for a token, all layers together. */
size_t cache_token_bytes(const struct cache *cache);

#endif
