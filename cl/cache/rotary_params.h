/* The tensors of turning rows by their positions, a row each as those of forward_tensors.h, and the values of one call;
 * C and OpenCL C both include this. TURN_TENSORS say by how much each row is turned: append has them too, and the
 * params of both begin with TURN_FIELDS. */
#ifndef CLATTN_ROTARY_PARAMS_H
#define CLATTN_ROTARY_PARAMS_H

#include "forward/forward_params.h"

/* clattn_rotary_pairs, and bits of problem.features; src/operation/turning.c asserts that they agree. */
#define CLATTN_CL_PAIRS_INTERLEAVED 1
#define CLATTN_CL_PAIRS_HALVES 2
#define CLATTN_CL_WITH_VARLEN 0x10u
#define CLATTN_CL_WITH_POSITIONS 0x10000u
#define CLATTN_CL_WITH_STARTS 0x20000u
#define CLATTN_CL_WITH_TOKEN_TABLES 0x40000u
#define CLATTN_CL_WITH_ROTARY 0x100000u
#define CLATTN_CL_WITH_NORM 0x200000u
#define CLATTN_CL_WITH_QUERY_NORM 0x400000u
#define CLATTN_CL_WITH_KEY_NORM 0x800000u
#define CLATTN_CL_WITH_VALUE_NORM 0x1000000u
#define CLATTN_CL_WITH_NORM_WEIGHTS 0x2000000u

/* Where a tensor is: fields NAME_offset, NAME_stride, by the row's place. */
#define CLATTN_PLACE_STRIDED(name) clattn_i64 name##_stride[4], name##_offset;
#define CLATTN_PLACE_COLUMNS(name) CLATTN_PLACE_STRIDED(name)
#define CLATTN_PLACE_DENSE(name) clattn_i64 name##_offset;
#define CLATTN_PLACE_ROW(id, name, axes, element, access, place, asked_by) CLATTN_PLACE_##place(name)

#define CLATTN_TURN_TENSORS(T)                                                                         \
    T(COSINE, cosine, (TABLE_PACKS, ONE, TABLE_ROWS, TABLE_COLUMNS), FLOAT, IN, COLUMNS, FEATURE(ROTARY)) \
    T(SINE, sine, (TABLE_PACKS, ONE, TABLE_ROWS, TABLE_COLUMNS), FLOAT, IN, COLUMNS, FEATURE(ROTARY))  \
    T(POSITIONS, positions, (PACKS, ONE, QUERY_ROWS, ONE), INT, IN, STRIDED, FEATURE(POSITIONS))       \
    T(STARTS, starts, (ONE, ONE, ONE, BATCH), INT, IN, DENSE, FEATURE(STARTS))                         \
    T(CU_QUERY, cu_query, (ONE, ONE, ONE, SEAMS), INT, IN, DENSE, FEATURE(VARLEN))

#define CLATTN_ROTARY_OWN_TENSORS(T)                                                                   \
    T(NORM_WEIGHT, norm_weight, (ONE, ONE, ONE, HEAD_DIM), FLOAT, IN, DENSE, WEIGHT_OF(NORM))          \
    T(X, x, (PACKS, HEADS, QUERY_ROWS, HEAD_DIM), TYPE, IN, COLUMNS, ALWAYS)                           \
    T(OUT, out, (PACKS, HEADS, QUERY_ROWS, HEAD_DIM), TYPE, OUT, COLUMNS, ALWAYS)

#define CLATTN_ROTARY_TENSORS(T) CLATTN_TURN_TENSORS(T) CLATTN_ROTARY_OWN_TENSORS(T)

#define CLATTN_TURN_FIELDS                                                                             \
    CLATTN_TURN_TENSORS(CLATTN_PLACE_ROW)                                                              \
    clattn_i64 table_rows; /* of cosine and sine */                                                    \
    clattn_i64 norm_epsilon_real; /* see common/types.clh */                                           \
    int batch, query_len;

typedef struct clattn_turn_params {
    CLATTN_TURN_FIELDS
} clattn_turn_params;

typedef struct clattn_rotary_params {
    CLATTN_TURN_FIELDS
    CLATTN_ROTARY_OWN_TENSORS(CLATTN_PLACE_ROW)
    int heads;
    int in_place; /* out is x: columns that are neither turned nor normed are there already */
} clattn_rotary_params;

#endif
