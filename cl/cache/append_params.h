/* The tensors of append, a row each as those of forward_tensors.h, and the values of one call; C and OpenCL C both
 * include this. */
#ifndef CLATTN_APPEND_PARAMS_H
#define CLATTN_APPEND_PARAMS_H

#include "cache/rotary_params.h"

/* More bits of problem.features; src/operation/append.c asserts that they agree. */
#define CLATTN_CL_WITH_PAGES 0x40u
#define CLATTN_CL_WITH_PAGE_STARTS 0x80u
#define CLATTN_CL_WITH_KEY_SCALES 0x100u
#define CLATTN_CL_WITH_VALUE_SCALES 0x200u
#define CLATTN_CL_WITH_SLOTS 0x80000u

#define CLATTN_APPEND_OWN_TENSORS(T)                                                                   \
    T(SLOTS, slots, (PACKS, ONE, QUERY_ROWS, ONE), INT, IN, STRIDED, FEATURE(SLOTS))                   \
    T(PAGE_TABLE, page_table, (TABLES, ONE, ONE, TABLE_PAGES), INT, IN, STRIDED, FEATURE(PAGES))       \
    T(PAGE_STARTS, page_starts, (ONE, ONE, ONE, SEAMS), INT, IN, DENSE, FEATURE(PAGE_STARTS))          \
    T(QUERY_NORM_WEIGHT, query_norm_weight, (ONE, ONE, ONE, HEAD_DIM), FLOAT, IN, DENSE, WEIGHT_OF(QUERY_NORM)) \
    T(KEY_NORM_WEIGHT, key_norm_weight, (ONE, ONE, ONE, HEAD_DIM), FLOAT, IN, DENSE, WEIGHT_OF(KEY_NORM)) \
    T(QUERY, query, (PACKS, QUERY_HEADS, QUERY_ROWS, HEAD_DIM), TYPE, IN, COLUMNS, FIELD(p->query_heads > 0)) \
    T(KEY, key, (PACKS, KV_HEADS, QUERY_ROWS, HEAD_DIM), TYPE, IN, COLUMNS, ALWAYS)                    \
    T(VALUE, value, (PACKS, KV_HEADS, QUERY_ROWS, HEAD_DIM_V), TYPE, IN, COLUMNS, ALWAYS)              \
    T(KEY_SCALES, key_scales, (CACHE_PACKS, KV_HEADS, KEY_SCALE_ROWS, KEY_SCALE_COLUMNS), FLOAT, IN, STRIDED, \
      FIELD(FEATURE(KEY_SCALES) && !type_makes_scales(p->key_type)))                                   \
    T(VALUE_SCALES, value_scales, (CACHE_PACKS, KV_HEADS, VALUE_SCALE_ROWS, VALUE_SCALE_COLUMNS), FLOAT, IN, \
      STRIDED, FIELD(FEATURE(VALUE_SCALES) && !type_makes_scales(p->value_type)))                      \
    T(KEY_TENSOR_SCALE, key_tensor_scale, (ONE, ONE, ONE, ONE), FLOAT, IN, DENSE,                      \
      FIELD(type_has_tensor_scale(p->key_type)))                                                       \
    T(VALUE_TENSOR_SCALE, value_tensor_scale, (ONE, ONE, ONE, ONE), FLOAT, IN, DENSE,                  \
      FIELD(type_has_tensor_scale(p->value_type)))                                                     \
    T(QUERY_OUT, query_out, (PACKS, QUERY_HEADS, QUERY_ROWS, HEAD_DIM), TYPE, OUT, COLUMNS,            \
      FIELD(p->query_heads > 0))                                                                       \
    T(KEY_SCALES_OUT, key_scales_out, (CACHE_PACKS, KV_HEADS, KEY_SCALE_ROWS, KEY_SCALE_COLUMNS), KEY_SCALE, UPDATED, \
      STRIDED, FIELD(type_makes_scales(p->key_type)))                                                  \
    T(VALUE_SCALES_OUT, value_scales_out, (CACHE_PACKS, KV_HEADS, VALUE_SCALE_ROWS, VALUE_SCALE_COLUMNS), VALUE_SCALE, \
      UPDATED, STRIDED, FIELD(type_makes_scales(p->value_type)))                                       \
    T(KEY_ZERO_POINTS, key_zero_points, (CACHE_PACKS, KV_HEADS, KEY_SCALE_ROWS, KEY_SCALE_COLUMNS), FLOAT, UPDATED, \
      STRIDED, FIELD(type_has_zero_points(p->key_type)))                                               \
    T(VALUE_ZERO_POINTS, value_zero_points, (CACHE_PACKS, KV_HEADS, VALUE_SCALE_ROWS, VALUE_SCALE_COLUMNS), FLOAT, \
      UPDATED, STRIDED, FIELD(type_has_zero_points(p->value_type)))                                    \
    T(KEY_CACHE, key_cache, (FIRST_POOL, KV_HEADS, CACHE_ROWS, HEAD_DIM), KEY, UPDATED, COLUMNS, ALWAYS) \
    T(VALUE_CACHE, value_cache, (FIRST_POOL, KV_HEADS, CACHE_ROWS, HEAD_DIM_V), VALUE, UPDATED, COLUMNS, ALWAYS)

#define CLATTN_APPEND_TENSORS(T) CLATTN_TURN_TENSORS(T) CLATTN_APPEND_OWN_TENSORS(T)

/* The further buffers of a pool, each of which takes the place of KEY_CACHE or VALUE_CACHE in a launch of its own:
 * T(ID, field, axes, element, pool). */
#define CLATTN_APPEND_POOLS(T)                                                                         \
    T(KEY_POOL_1, key_pools[0], (POOL_1, KV_HEADS, CACHE_ROWS, HEAD_DIM), KEY, 1)                      \
    T(KEY_POOL_2, key_pools[1], (POOL_2, KV_HEADS, CACHE_ROWS, HEAD_DIM), KEY, 2)                      \
    T(KEY_POOL_3, key_pools[2], (POOL_3, KV_HEADS, CACHE_ROWS, HEAD_DIM), KEY, 3)                      \
    T(VALUE_POOL_1, value_pools[0], (POOL_1, KV_HEADS, CACHE_ROWS, HEAD_DIM_V), VALUE, 1)              \
    T(VALUE_POOL_2, value_pools[1], (POOL_2, KV_HEADS, CACHE_ROWS, HEAD_DIM_V), VALUE, 2)              \
    T(VALUE_POOL_3, value_pools[2], (POOL_3, KV_HEADS, CACHE_ROWS, HEAD_DIM_V), VALUE, 3)

typedef struct clattn_append_params {
    CLATTN_TURN_FIELDS
    CLATTN_APPEND_OWN_TENSORS(CLATTN_PLACE_ROW)
    int query_heads, kv_heads;
    int capacity;        /* rows of a sequence */
    int page_size, pages; /* of a pool; 0: the cache is dense */
    int ring, pinned;    /* rows of a ring, 0: none; those at its beginning that stay */
    int key_scale_rows, value_scale_rows; /* rows that share a scale; all: CLATTN_ALL_SHARE */
    int in_place;        /* query_out is query */
    int first_page;      /* of the pool's buffer, whose pages are `pages`; 0 where it has one */
} clattn_append_params;

#endif
