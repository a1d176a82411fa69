/* append: new keys and values into a cache, keys and queries turned by their positions (cache/rotary.clh), keys and
 * values rounded or quantised to the types of the cache (cache/quantise.clh): one pass over what is read and written.
 *
 *     global id 0: a block of TOKENS rows, UNIT_ITEMS work-items side by side
 *     global id 1: query head, or behind those a key/value head; and every so many-th
 *
 * A row goes to row r of its sequence's cache: r = starts[b] + i, in a ring pinned + (r - pinned) % (ring - pinned); or
 * slots[b, i]. In pages that is row r % page_size of page page_table[b, r / page_size]; a slot counts the rows of the
 * whole pool. What has no such row is not written: no address is made of it. */
#include "cache/append_params.h"
#include "cache/rotary.clh"
#if IS_CODES(KEY_TYPE) || IS_CODES(VALUE_TYPE)
#include "cache/made_scales.clh"
#else
typedef struct scale_target { int none; } scale_target; /* no codes, no scales */
#endif

#ifndef HEAD_DIM_V
#define HEAD_DIM_V HEAD_DIM
#endif
#ifndef TOKENS
#define TOKENS 1
#endif
#ifndef POOL /* slots and pages count through one pool; 2: which has several buffers, one of them here */
#define POOL 0
#endif
#ifndef RING
#define RING 0
#endif
#ifndef KEY_SCALE_COLUMNS /* that share a scale */
#define KEY_SCALE_COLUMNS CLATTN_ALL_SHARE
#define VALUE_SCALE_COLUMNS CLATTN_ALL_SHARE
#endif

/* ---- where a row goes ------------------------------------------------------------------------- */

typedef struct append_buffers {
    __global const int *slots, *page_table, *page_starts;
} append_buffers;

typedef struct target {
    int is_written;
    int pack, row; /* sequence or page, and the row in it */
} target;

/* The row of the sequence's cache for a key; -1: a later row of this call takes its place in the ring. */
INLINE clattn_i64 row_of_key(const clattn_append_params *p, const token *at)
{
    const int turning = p->ring - p->pinned;
    if (!RING || at->position < p->pinned) {
        return at->position;
    }
    return at->rows - at->i > turning ? -1 : p->pinned + (at->position - p->pinned) % turning;
}

/* The page of a sequence; -1: there is none. */
INLINE int page_of(const clattn_append_params *p, const append_buffers *in, int b, int number)
{
    clattn_i64 entry = b * p->page_table_stride[0] + number * p->page_table_stride[3];
    if (WITH(PAGE_STARTS)) {
        const int start = in->page_starts[p->page_starts_offset + b];
        if (start < 0 || number >= in->page_starts[p->page_starts_offset + b + 1] - start) {
            return -1;
        }
        entry = ((clattn_i64)start + number) * p->page_table_stride[3];
    }
    return in->page_table[p->page_table_offset + entry];
}

INLINE target target_of(const clattn_append_params *p, const append_buffers *in, const token *at)
{
    target to = { 0, at->b, 0 };
    if (!at->is_there) {
        return to;
    }
    const clattn_i64 row = WITH(SLOTS) ? in->slots[p->slots_offset + at->pack * p->slots_stride[0] +
                                                   at->row * p->slots_stride[2]]
                                       : row_of_key(p, at);
    if (row < 0 || (!(WITH(SLOTS) && POOL) && row >= p->capacity)) {
        return to;
    }
    to.row = (int)row;
    to.is_written = 1;
    if (POOL) {
        const int number = to.row / p->page_size;
        to.row -= number * p->page_size;
        to.pack = WITH(SLOTS) ? number : page_of(p, in, at->b, number);
#if POOL > 1
        to.is_written = to.pack >= p->first_page && to.pack - p->first_page < p->pages;
        to.pack -= to.is_written ? p->first_page : 0;
#else
        to.is_written = to.pack >= 0 && to.pack < p->pages;
#endif
    }
    return to;
}

/* ---- rows ------------------------------------------------------------------------------------- */

DEFINE_TURN_ROW(turn_query, WITH(QUERY_NORM), TYPE, TYPE)
DEFINE_TURNED_RUN(turned_key, WITH(KEY_NORM), TYPE)
DEFINE_NORM_OF_ROW(norm_of_row, TYPE)

INLINE float_run plain_value(const clattn_turn_params *p, const turn_buffers *in, const token *at, const norm *by,
                             __global const STORAGE *from, clattn_i64 from_at, clattn_i64 step, int column)
{
    return NORMED(WITH(VALUE_NORM), RUN_LOAD(TYPE, from, from_at + column * step), column);
}

/* Sixteen columns, of whatever runs they are made. */
#if RUN == 16
#define SIXTEEN(take, column) take(p, in, at, by, from, from_at, from_step, column)
#else
#define SIXTEEN(take, column) take##_16(p, in, at, by, from, from_at, from_step, column)
#endif
#define DEFINE_SIXTEEN(take)                                                                           \
    INLINE float16 take##_16(const clattn_turn_params *p, const turn_buffers *in, const token *at, const norm *by, \
                             __global const STORAGE *from, clattn_i64 from_at, clattn_i64 step, int column) \
    {                                                                                                  \
        float values[16];                                                                              \
        _Pragma("unroll")                                                                              \
        for (int i = 0; i < 16; i += RUN) {                                                            \
            PUT_RUN(values + i, take(p, in, at, by, from, from_at, step, column + i));                   \
        }                                                                                              \
        return vload16(0, values);                                                                     \
    }
#if RUN == 1
#define PUT_RUN(to, value) (*(to) = (value))
#define PUT_BYTES(bytes, to) (*(to) = (bytes))
#else
#define PUT_RUN(to, value) store_run(value, 0, to)
#define PUT_BYTES(bytes, to) store_run(bytes, 0, to)
#endif
#if RUN != 16
DEFINE_SIXTEEN(turned_key)
DEFINE_SIXTEEN(plain_value)
#endif

/* The scales of RUN columns; `shared` columns have one. */
INLINE float_run scales_of(__global const float *scales, clattn_i64 step, int column, int shared)
{
    if (!scales) {
        return 1.0f;
    }
#if RUN > 1
    if (shared == 1 && step == 1) {
        return load_run(0, scales + column);
    }
    if (shared % RUN) {
        float values[RUN];
        #pragma unroll
        for (int i = 0; i < RUN; ++i) {
            values[i] = scales[(column + i) / shared * step];
        }
        return load_run(0, values);
    }
#endif
    return scales[GROUP_OF(column, shared) * step];
}

/* One row into the cache, by units unit, unit + step, ... Blocks: a unit is 32 columns. `to` is the cache as bytes. */
#define DEFINE_STORE_ROW(name, take, columns, type, scale_columns)                                     \
    INLINE void name(const clattn_turn_params *p, const turn_buffers *in, const token *at, const norm *by, \
                     __global const STORAGE *from, clattn_i64 from_at, clattn_i64 from_step,           \
                     __global uchar *to, clattn_i64 to_at, clattn_i64 to_step,                         \
                     const scale_target *scales, int unit, int step)                                   \
    {                                                                                                  \
        STORE_ROW(type)(take, columns, type, scale_columns)                                            \
    }
#define STORE_ROW(type) JOIN(STORE_ROW_, type)
#define STORE_ROW_FLOATS(take, columns, type, scale_columns)                                           \
    for (int c = unit * RUN; c < columns; c += step * RUN) {                                           \
        RUN_STORE(type, (__global STORAGE_OF(type) *)to, to_at + c * to_step,                          \
                  take(p, in, at, by, from, from_at, from_step, c));                                       \
    }
#define STORE_ROW_BYTES(take, columns, type, scale_columns)                                            \
    for (int c = unit * RUN; c < columns; c += step * RUN) {                                           \
        const float_run scale = scales_of(scales->given, scales->given_step, c, scale_columns);        \
        const run_bytes bytes = quantise_run(type, take(p, in, at, by, from, from_at, from_step, c), scale); \
        PUT_BYTES(bytes, to + to_at + c * to_step);                                                    \
    }
#define STORE_ROW_BLOCKS(take, columns, type, scale_columns)                                           \
    for (int n = unit; n < columns / BLOCK_COLUMNS; n += step) {                                       \
        const block values = { SIXTEEN(take, n * BLOCK_COLUMNS), SIXTEEN(take, n * BLOCK_COLUMNS + 16) }; \
        quantise_block(type, &values, to + to_at * bytes_of_block(type), n);                           \
    }
/* Pairs of columns; where columns go one by one, a pair is two of them. */
#define STORE_ROW_PAIRS(take, columns, type, scale_columns)                                            \
    for (int c = unit * RUN_OF_PAIRS; c < columns; c += step * RUN_OF_PAIRS) {                         \
        CODES_OF_PAIRS(CODES_AT, take, type, scale_columns)                                            \
        PUT_PAIRS(type, codes, to + to_at + c / 2);                                                    \
    }
/* A unit is a group of columns that share a scale, which is made of them. */
#define STORE_ROW_MADE(take, columns, type, scale_columns)                                             \
    const int share = min(scale_columns, columns);                                                     \
    for (int n = unit; n * share < columns; n += step) {                                               \
        const int first = n * share, end = min(first + share, columns);                                \
        group_range range = no_range();                                                                \
        for (int c = first; c < end; c += RUN) {                                                       \
            range_take(&range, take(p, in, at, by, from, from_at, from_step, c));                      \
        }                                                                                              \
        const made_scale made = make_scale(type, &range, scales->of_tensor);                           \
        put_scale(type, &made, scales, n);                                                             \
        for (int c = first; c < end; c += IS_PAIRS(type) ? RUN_OF_PAIRS : RUN) {                       \
            if (IS_PAIRS(type)) {                                                                      \
                CODES_OF_PAIRS(MADE_AT, take, type, scale_columns)                                     \
                PUT_PAIRS(type, codes, to + to_at + c / 2);                                            \
            } else {                                                                                   \
                PUT_BYTES(MADE_AT(take, type, scale_columns, c), to + to_at + c * to_step);            \
            }                                                                                          \
        }                                                                                              \
    }
#define CODES_AT(take, type, scale_columns, c)                                                         \
    quantise_run(type, take(p, in, at, by, from, from_at, from_step, c),                               \
                 scales_of(scales->given, scales->given_step, c, scale_columns))
#define MADE_AT(take, type, scale_columns, c)                                                          \
    made_codes(type, take(p, in, at, by, from, from_at, from_step, c), &made)
#if RUN == 1
#define RUN_OF_PAIRS 2
#define CODES_OF_PAIRS(codes_at, take, type, scale_columns)                                            \
    const uchar codes[2] = { codes_at(take, type, scale_columns, c), codes_at(take, type, scale_columns, c + 1) };
#define PUT_PAIRS(type, codes, to)                                                                     \
    (*(to) = (uchar)((type) == CLATTN_CL_U4 ? codes[0] << 4 | codes[1] : codes[0] | codes[1] << 4))
#else
#define RUN_OF_PAIRS RUN
#define CODES_OF_PAIRS(codes_at, take, type, scale_columns)                                            \
    const run_bytes codes = codes_at(take, type, scale_columns, c);
#define PUT_PAIRS(type, codes, to)                                                                     \
    STORE_HALF_RUN((type) == CLATTN_CL_U4 ? codes.even << (uchar)4 | codes.odd                         \
                                          : codes.even | codes.odd << (uchar)4,                        \
                   0, to)
#if RUN == 16
#define STORE_HALF_RUN vstore8
#elif RUN == 8
#define STORE_HALF_RUN vstore4
#else
#define STORE_HALF_RUN vstore2
#endif
#endif
#define STORE_ROW_1 STORE_ROW_FLOATS
#define STORE_ROW_2 STORE_ROW_FLOATS
#define STORE_ROW_3 STORE_ROW_FLOATS
#define STORE_ROW_4 STORE_ROW_FLOATS
#define STORE_ROW_5 STORE_ROW_BYTES
#define STORE_ROW_6 STORE_ROW_BYTES
#define STORE_ROW_7 STORE_ROW_BYTES
#define STORE_ROW_8 STORE_ROW_BLOCKS
#define STORE_ROW_9 STORE_ROW_BLOCKS
#define STORE_ROW_10 STORE_ROW_BLOCKS
#define STORE_ROW_11 STORE_ROW_BLOCKS
#define STORE_ROW_12 STORE_ROW_BLOCKS
#define STORE_ROW_13 STORE_ROW_BLOCKS
#define STORE_ROW_14 STORE_ROW_BLOCKS
#define STORE_ROW_15 STORE_ROW_PAIRS
#define STORE_ROW_16 STORE_ROW_MADE
#define STORE_ROW_17 STORE_ROW_MADE
#define STORE_ROW_18 STORE_ROW_MADE
#define STORE_ROW_19 STORE_ROW_MADE
#define STORE_ROW_20 STORE_ROW_MADE

DEFINE_STORE_ROW(store_key, turned_key, HEAD_DIM, KEY_TYPE, KEY_SCALE_COLUMNS)
DEFINE_STORE_ROW(store_value, plain_value, HEAD_DIM_V, VALUE_TYPE, VALUE_SCALE_COLUMNS)

/* Where the scales of a row of a cache begin, by elements. */
#define SCALES_AT(name, to, h, share)                                                                  \
    (p->name##_offset + (to).pack * p->name##_stride[0] + (h) * p->name##_stride[1] +                  \
     GROUP_OF((to).row, share) * p->name##_stride[2])
#if IS_CODES(KEY_TYPE) || IS_CODES(VALUE_TYPE)
#define GIVEN_SCALES(name, NAME, to, h)                                                                \
    WITH(NAME##_SCALES) && !MAKES_SCALES(NAME##_TYPE)                                                  \
        ? name##_scales + SCALES_AT(name##_scales, to, h, p->name##_scale_rows)                        \
        : 0
#define TARGET_OF(name, NAME, to, h)                                                                   \
    {                                                                                                  \
        GIVEN_SCALES(name, NAME, to, h), p->name##_scales_stride[3],                                   \
            MAKES_SCALES(NAME##_TYPE)                                                                  \
                ? name##_scales_out + SCALES_AT(name##_scales_out, to, h, 1) * SCALE_BYTES(NAME##_TYPE) \
                : 0,                                                                                   \
            p->name##_scales_out_stride[3], p->name##_zero_points_stride[3],                           \
            HAS_ZERO_POINTS(NAME##_TYPE) ? name##_zero_points + SCALES_AT(name##_zero_points, to, h, 1) : 0, \
            HAS_TENSOR_SCALE(NAME##_TYPE) ? name##_tensor_scale[p->name##_tensor_scale_offset] : 1.0f  \
    }
#else
#define TARGET_OF(name, NAME, to, h) { 0 }
#endif

/* Caches are taken as bytes. */
#define ELEMENT_KEY uchar
#define ELEMENT_VALUE uchar
#define ELEMENT_KEY_SCALE uchar
#define ELEMENT_VALUE_SCALE uchar
#define ACCESS_UPDATED

__kernel LEAST_SUB_GROUP void append(const clattn_append_params params CLATTN_APPEND_TENSORS(ARGUMENT_OF_ROW))
{
    LEAVE_REHEARSAL(params.batch)
    const clattn_append_params *p = &params;
    const clattn_turn_params *turn = (const clattn_turn_params *)p;
    const turn_buffers in = { cosine, sine, positions, starts, cu_query };
    const append_buffers places = { slots, page_table, page_starts };
    const size_t id = get_global_id(0), first = id / UNIT_ITEMS * TOKENS;
    const int unit = (int)(id % UNIT_ITEMS), heads = p->query_heads + p->kv_heads;
    NORM_PARTS
    const int stays = (p->in_place != 0) & !WITH(QUERY_NORM);
    const int units = stays ? TURN_UNITS : TURN_UNITS + (HEAD_DIM - ROTARY_COLUMNS) / RUN;
    for (int t = 0; t < TOKENS; ++t) {
        const token at = token_of(turn, &in, first + t);
        const target to = target_of(p, &places, &at);
        for (int h = (int)get_global_id(1); h < heads && (HAS_BARRIERS || at.is_there);
             h += (int)get_global_size(1)) {
            const int g = h - p->query_heads, is_query = g < 0;
            const norm by_turned = is_query
                ? NORM_OF(QUERY_NORM, query, at, at.is_there, h, HEAD_DIM, NORM_WEIGHTS(query_norm_weight))
                : NORM_OF(KEY_NORM, key, at, to.is_written, g, HEAD_DIM, NORM_WEIGHTS(key_norm_weight));
            const norm by_value = NORM_OF(VALUE_NORM, value, at, !is_query && to.is_written, g, HEAD_DIM_V, 0);
            if (is_query && at.is_there) {
                FETCH_NEXT(query, at, h, HEAD_DIM);
                turn_query(turn, &in, &at, &by_turned, query, ROW_AT(query, at, h), p->query_stride[3], query_out,
                           ROW_AT(query_out, at, h), p->query_out_stride[3], unit, units, UNIT_ITEMS);
            } else if (!is_query && to.is_written) {
                FETCH_NEXT(key, at, g, HEAD_DIM);
                FETCH_NEXT(value, at, g, HEAD_DIM_V);
                const scale_target key_target = TARGET_OF(key, KEY, to, g);
                const scale_target value_target = TARGET_OF(value, VALUE, to, g);
                store_key(turn, &in, &at, &by_turned, key, ROW_AT(key, at, g), p->key_stride[3], key_cache,
                          ROW_AT(key_cache, to, g), p->key_cache_stride[3], &key_target, unit, UNIT_ITEMS);
                store_value(turn, &in, &at, &by_value, value, ROW_AT(value, at, g), p->value_stride[3], value_cache,
                            ROW_AT(value_cache, to, g), p->value_cache_stride[3], &value_target, unit, UNIT_ITEMS);
            }
        }
    }
}
