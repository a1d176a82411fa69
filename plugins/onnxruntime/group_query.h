/* What the two halves of GroupQueryAttention share: its operands (group_query.c), its cache (group_query_cache.c). */
#ifndef CLATTN_ORT_GROUP_QUERY_H
#define CLATTN_ORT_GROUP_QUERY_H

#include "operands.h"

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COSINE,
    SINE,
    IDS,
    BIAS,
    SINKS,
    KEY_SCALE,
    VALUE_SCALE,
    QUERY_NORM,
    KEY_NORM,
    QUERY_LENGTHS
};
enum { OUT, PRESENT_KEY, PRESENT_VALUE, WEIGHTS };

/* Scales of the codes in a cache. */
struct scales {
    clattn_host_tensor at;
    int64_t columns; /* that share one, as clattn_problem has it; 0: all */
};

struct operands {
    struct tensor in[KEY_NORM + 1];
    struct heads query, key, value; /* what is new */
    int64_t batch, rows;
    int32_t *starts;                        /* of each entry's rows, in the lane's memory */
    int64_t total;                          /* keys of the longest entry when the call is done */
    struct scales key_scales, value_scales; /* of a cache of codes */
};

/* clattn's type of the codes in a cache, which have so many bits, in elements of that type; NONE: it has no such. */
clattn_type group_query_code_type(ONNXTensorElementDataType element, int64_t bits);

/* The present caches, with what the past ones had in them: nothing is copied where both are one buffer. Reads the
 * scales of caches of codes. */
OrtStatus *group_query_open_caches(const struct run *run, struct operands *o, struct heads *keys, struct heads *values);

/* Puts new keys and values where they belong; queries and keys are normed and turned on the way, where the node says
 * so. */
OrtStatus *group_query_append(const struct run *run, struct operands *o, const struct heads *keys,
                              const struct heads *values);

#endif
