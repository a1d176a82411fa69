/* Random calls of append on a device: caches of every kind between guard values, and what must be in them afterwards,
 * computed by a way of its own. */
#ifndef CLATTN_TESTS_SUPPORT_APPEND_CALL_H
#define CLATTN_TESTS_SUPPORT_APPEND_CALL_H

#include "clattn_cache.h"
#include "random.h"

/* Tensors by their places in clattn_append_tensors. */
enum append_array {
    ARRAY_KEY,
    ARRAY_VALUE,
    ARRAY_KEY_CACHE,
    ARRAY_VALUE_CACHE,
    ARRAY_QUERY,
    ARRAY_QUERY_OUT,
    ARRAY_COSINE,
    ARRAY_SINE,
    ARRAY_POSITIONS,
    ARRAY_STARTS,
    ARRAY_SLOTS,
    ARRAY_CU_QUERY,
    ARRAY_PAGE_TABLE,
    ARRAY_PAGE_STARTS,
    ARRAY_KEY_SCALES,
    ARRAY_VALUE_SCALES,
    ARRAY_POOLS, /* six, whose memory is that of the caches */
    ARRAY_QUERY_NORM_WEIGHT = ARRAY_POOLS + 6,
    ARRAY_KEY_NORM_WEIGHT,
    ARRAY_KEY_SCALES_OUT,
    ARRAY_VALUE_SCALES_OUT,
    ARRAY_KEY_ZERO_POINTS,
    ARRAY_VALUE_ZERO_POINTS,
    ARRAY_KEY_TENSOR_SCALE,
    ARRAY_VALUE_TENSOR_SCALE,
    ARRAYS
};

/* A tensor inside of memory that has more on both sides and between its rows. */
struct append_memory {
    unsigned char *data; /* NULL: there is no such tensor */
    size_t bytes;
    clattn_type type; /* CLATTN_TYPE_NONE: int32 */
    int64_t offset, stride[4], shape[4];
};

struct append_call_test {
    clattn_append_problem problem;
    clattn_cache_call call;
    struct append_memory array[ARRAYS];
    int in_place; /* query_out is query's memory */
};

#define APPEND_NORMS ((uint32_t)CLATTN_WITH_QUERY_NORM | CLATTN_WITH_KEY_NORM | CLATTN_WITH_VALUE_NORM)

/* What a problem is made of; -1: by chance. */
struct append_wish {
    int hostile; /* nonzero: starts, slots, pages and positions that are none, as only a device takes them */
    clattn_type type, key_type, value_type;
    int rotary;
    int ends; /* nonzero: infinities, NaN, values that no block has a scale for, and zeros of both signs */
    int norms;
};

void append_call_draw(struct append_call_test *test, struct random *random, const struct append_wish *wish);
void append_call_free(struct append_call_test *test);

/* Enqueues it on the context's queue, and reads all memory back. */
clattn_status append_call_run(struct append_call_test *test, clattn_context *context);

/* By the reference, in place. */
clattn_status append_call_reference(struct append_call_test *test);

/* Memory as it must be after the call that has not been made; freed like a test. */
void append_call_expect(const struct append_call_test *before, struct append_call_test *expected);

/* Where `got` differs from what is expected, as text; NULL: nowhere. What was turned may be off by the rounding of
 * float32 and of its type, or by one code; all else has the same bytes. */
const char *append_call_difference(const struct append_call_test *expected, const struct append_call_test *got);

#endif
