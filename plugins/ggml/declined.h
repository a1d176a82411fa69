/* Why nodes of attention are left to another backend, counted. */
#ifndef GGML_CLATTN_DECLINED_H
#define GGML_CLATTN_DECLINED_H

#include "ggml.h"

#include <stddef.h>

/* The text says which rule the node breaks. */
#define DECLINED_REASONS(R)                                                                                            \
    R(QUERY_TYPE, "queries are not float32")                                                                           \
    R(OUT_TYPE, "the result is not float32")                                                                           \
    R(CACHE_TYPE, "keys or values are of a type other than f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1")              \
    R(COLUMNS, "columns of queries, keys or values do not follow one another")                                         \
    R(STRIDES, "a stride is no multiple of the type's size")                                                           \
    R(HEADS, "keys and values have different heads, or query heads are no multiple of them")                           \
    R(MASK, "the mask is not float16, or has fewer rows than the queries")                                             \
    R(MASK_HEADS, "the mask has several heads or batch entries, but fewer than the queries")                           \
    R(SINKS, "sinks are not float32")                                                                                  \
    R(LENGTHS, "more than 2^31 - 4097 rows or keys")

#define R(name, text) DECLINED_##name,
enum declined { DECLINED_NOT = -1, DECLINED_REASONS(R) DECLINED_COUNT };
#undef R

/* Why the backend does not compute this FLASH_ATTN_EXT node, or DECLINED_NOT. */
enum declined declined_reason(const struct ggml_tensor *node);

/* Counts the answer: ggml asks several times for each node of a graph. With CLATTN_GGML_LOG set in the environment each
 * reason is told on stderr when it first comes. */
void declined_count(enum declined reason);

/* With CLATTN_GGML_LOG set: all counts, on stderr. */
void log_report(void);

/* Count a node that was computed, one that got lists of its rows' keys, a plan that was made. */
void computed_count(void);
void listed_count(void);
void planned_count(void);

/* What was counted since the library was loaded, as lines "COUNT WHAT": nodes computed, of them by lists of keys, plans
 * made, then each reason that came, by how often ggml was told it. Writes at most `size` bytes, with the 0 behind, and
 * returns how many the whole text has without it. Any thread. By name through ggml_backend_reg_get_proc_address. */
__attribute__((visibility("default"))) size_t ggml_backend_clattn_report(char *text, size_t size);

#endif
