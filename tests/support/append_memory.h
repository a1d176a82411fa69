/* The memory of append_call.h's tests. */
#ifndef CLATTN_TESTS_SUPPORT_APPEND_MEMORY_H
#define CLATTN_TESTS_SUPPORT_APPEND_MEMORY_H

#include "append_call.h"

/* Memory for each tensor that the problem has, all of it guard values. */
void append_memory_make(struct append_call_test *test, struct random *random);
void append_memory_fill(struct append_call_test *test, struct random *random, int hostile);
void append_memory_put_ends(struct append_call_test *test, struct random *random);

/* The element, of block types the column, that the indices lead to. */
int64_t append_memory_at(const struct append_memory *memory, int64_t b, int64_t h, int64_t i, int64_t c);
int32_t append_memory_int(const struct append_memory *memory, int64_t b, int64_t i, int64_t c);

/* The rows of a sequence: the first one in packed tensors, how many, and its index on the batch axis. */
struct append_rows {
    int64_t first, count, pack;
};
struct append_rows append_rows_of(const struct append_call_test *test, int64_t b);

#endif
