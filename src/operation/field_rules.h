/* Rules on fields that problems of several operations have. */
#ifndef CLATTN_SRC_FIELD_RULES_H
#define CLATTN_SRC_FIELD_RULES_H

#include <stddef.h>

#include "clattn.h"

struct dimension {
    const char *name;
    int64_t value, least;
};

/* Every dimension must be at least its `least` and fit 31 bits. Kernels that cut one into tiles count past the last
 * tile in int: tiled ones stay below that by more than any tile. */
clattn_status check_dimensions(const struct dimension *dimensions, size_t count);
clattn_status check_tiled_dimensions(const struct dimension *dimensions, size_t count);

/* Lengths are 32-bit in kernels; positions are 64-bit. */
#define DIMENSION_MAX INT32_MAX

/* What queries are of: a floating-point type. */
clattn_status check_type(clattn_type type);

/* A type of its own, beside that of queries: any that is computed in float32 goes with any other. */
struct own_type {
    const char *name; /* of the field */
    clattn_type type;
    const char *columns_name; /* of a head: what blocks must divide */
    int64_t columns;          /* 0: not for keys or values, and no codes */
};
clattn_status check_own_type(const struct own_type *own, clattn_type type);

/* The type of a tensor of a number a head: of slopes, or sinks. */
struct head_type {
    const char *name;
    clattn_type type;
    uint32_t feature; /* that the tensor is there */
    const char *feature_name;
};
clattn_status check_head_type(const struct head_type *own, uint32_t features, clattn_type type);

/* Scales of keys, or values: that there are some where the type takes, or needs, them; as many as it says itself. */
struct shared_scales {
    const char *name; /* "key", "value" */
    clattn_type type;
    uint32_t are_there;
    int64_t rows, columns; /* that share one, as the problem says */
};
clattn_status check_scales_of_type(const struct shared_scales *scales);

/* How many rows and columns share a scale, where the type says it. */
void own_shares(clattn_type type, int64_t *rows, int64_t *columns);

#endif
