/* The gradients of attention without the matrix of scores, for CPU devices: FlashAttention's backward
 * pass (Dao et al. 2022; Dao 2023) with one pass over the pairs and no atomics. One work-item a work-group; it owns a
 * rectangle of SPLIT_KEYS keys x RECTANGLE_ROWS packed rows of a key/value head and walks over it, a block of keys
 * after the other and in each from block of rows to block of rows:
 *
 *                 keys along the lanes                        columns along the lanes
 *     S  [row][keys] += query[row][c] * key^T[c][keys]        dquery[row][cs] += dZ[row][key] * key[key][cs]
 *     dP [row][keys] += dout [row][c] * value^T[c][keys]
 *     P = exp(S - lse - rest), dZ = P (dP - D): what a row has is a scalar, so nothing is reduced and nothing rescaled
 *     dvalue^T[c][keys] += dout [row][c] * P [row][keys]
 *     dkey^T  [c][keys] += query[row][c] * dZ[row][keys]
 *
 *     group id 0: SPLIT_KEYS keys     1: rectangle of rows     2: key/value head of a batch entry
 *
 * dkey and dvalue of a block of keys stay with it, dquery is added in memory, to a part of the split's own. The parts
 * of all splits, and of all rectangles, are added in their order by add_sums. Numbers of both are the kernel's own: no
 * bit depends on batch, device or workspace.
 *
 * Hidden pairs have P and dZ -0.0. That is as good as 0 where all that they meet is finite; else, and where some pair
 * of a block is hidden, products pass them over one by one. */
#ifndef FLAGS
#define FLAGS 0u
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef HEAD_DIM_V
#define HEAD_DIM_V 64
#endif
#ifndef GROUP
#define GROUP 1
#endif
#ifndef BLOCK_KEYS
#define BLOCK_KEYS 128 /* a multiple of all tiles, a part of SPLIT_KEYS; decides bits of dquery */
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 64
#endif
#ifndef STRIDED_COLUMNS
#define STRIDED_COLUMNS 0
#endif
#ifndef WANTS
#define WANTS 7 /* bits 1 << SUM_*, WANTED_* */
#endif

#ifndef PRODUCT
#define PRODUCT PRODUCT_FMA
#endif

#define WANTS_DQUERY ((WANTS & 1 << SUM_DQUERY) != 0)
#define WANTS_DKEY ((WANTS & 1 << SUM_DKEY) != 0)
#define WANTS_DVALUE ((WANTS & 1 << SUM_DVALUE) != 0)
#define WANTS_ROW_SUMS ((WANTS & 1 << SUM_ROWS) != 0)
#define WANTS_DSLOPES ((WANTS & WANTED_SLOPES) != 0)
#define WANTS_DSCALE ((WANTS & WANTED_SCALE) != 0)
#define WANTS_DBIAS ((WANTS & WANTED_BIAS) != 0)

#include "backward_simd/backward_simd_layout.h"
#include "simd/simd_layout.h"

#include "backward_simd/bias.clh"
#include "backward_simd/pairs.clh"
#include "backward_simd/rests.clh"
#include "backward_simd/sums.clh"
#include "common/group_kernel.clh"

/* ---- products that pass over hidden pairs ------------------------------------------------------ */

static inline void columns_passing(const float *element, int columns, const float16 *pairs, int row_count,
                                   float16 *total)
{
    for (int c = 0; c < columns; ++c) {
        float16 sum[VECTORS];
        FOR_VECTORS sum[v] = 0.0f;
        for (int r = 0; r < row_count; ++r) {
            FOR_VECTORS {
                const float16 pair = pairs[r * VECTORS + v];
                const float16 next = FMA((float16)element[r * columns + c], pair, sum[v]);
                sum[v] = IS_HIDDEN_PAIR(pair) ? sum[v] : next;
            }
        }
        FOR_VECTORS total[c * VECTORS + v] += sum[v];
    }
}

static inline void add_columns(int passes, const float *element, int columns, const float16 *pairs, int row_count,
                               float16 *total)
{
    if (passes) {
        columns_passing(element, columns, pairs, row_count, total);
    } else {
        product_all_columns(element, columns, pairs, row_count, total);
    }
}

INLINE void rows_passing(const float *const row[PRODUCT_ROWS], const float16 *key, float16 sum[PRODUCT_ROWS][VECTORS])
{
    for (int k = 0; k < TILE_KEYS; ++k) {
        FOR_PRODUCT_ROWS {
            if (as_int(row[u][k]) != as_int(HIDDEN_PAIR)) {
                FOR_VECTORS sum[u][v] = FMA((float16)row[u][k], key[k * VECTORS + v], sum[u][v]);
            }
        }
    }
}

/* ---- a block of rows and a block of keys ------------------------------------------------------- */

/* What the pairs add to dquery; `to`: of the block's first row. begins: nothing is there yet. */
INLINE void add_dquery_by(const row_block *rows, const key_block *keys, tile_range tiles, const float16 *dz, int begins,
                          int passes, __global float *to)
{
    for (int c = 0; c < PADDED_DIM; c += TILE_KEYS) {
        const float16 *key = keys->key + c / TILE_KEYS * BLOCK_KEYS * VECTORS;
        for (int r = 0; r < rows->at.count; r += PRODUCT_ROWS) {
            float16 sum[PRODUCT_ROWS][VECTORS];
            FOR_PRODUCT_ROWS FOR_VECTORS {
                sum[u][v] = 0.0f;
            }
            for (int t = tiles.first; t < tiles.end; ++t) {
                const float *row[PRODUCT_ROWS];
                find_product_rows((const float *)(dz + t * BLOCK_ROWS * VECTORS), TILE_KEYS, r, rows->at.count, row);
                if (passes) {
                    rows_passing(row, key + t * TILE_KEYS * VECTORS, sum);
                } else {
                    product_rows(row, key + t * TILE_KEYS * VECTORS, TILE_KEYS, sum);
                }
            }
            FOR_PRODUCT_ROWS FOR_VECTORS {
                if (r + u < rows->at.count) {
                    __global float *at = to + (size_t)(r + u) * PADDED_DIM + c;
                    vstore16(begins ? sum[u][v] : vload16(v, at) + sum[u][v], v, at);
                }
            }
        }
    }
}

/* Where what a block of rows gives goes, from its first row on. */
typedef struct row_outputs {
    __global float *dquery, *row_sums;
    bias_output bias;
    int begins; /* nothing is there yet */
} row_outputs;

/* With tiles, where all is finite: nothing has to be passed over, and dZ is theirs. */
INLINE void attend(const clattn_params *p, const attention_buffers *in, const row_block *rows, key_block *keys,
                   const row_outputs *to, block_tiles *tiles, scratch *room)
{
    const int all_see = nothing_to_add(p, rows, keys->from), count = rows->at.count;
    const int passes = !tiles && !all_see && !(rows->finite && keys->finite);
    const tile_range met = tiles_met(&rows->at, keys->from);
    for (int at = 0; WANTS_ROW_SUMS && at < count * BLOCK_SUMS; ++at) {
        room->row_sums[at] = 0.0f;
    }
    if (WANTS_DBIAS && to->bias.gradient) {
        const int first_row = rows->at.first_row, end = keys->from + BLOCK_KEYS;
        clear_bias(p, &to->bias, rows->at.b, rows->at.first_head, first_row, first_row + count, keys->from,
                   keys->from + met.first * TILE_KEYS);
        clear_bias(p, &to->bias, rows->at.b, rows->at.first_head, first_row, first_row + count,
                   keys->from + met.end * TILE_KEYS, end);
    }
    for (int t = met.first; t < met.end; ++t) {
        float16 *dz = room->dz + (tiles ? 0 : t * BLOCK_ROWS * VECTORS);
        float16 *dvalue_t = keys->dvalue_t + t * SUM_COLUMNS(HEAD_DIM_V) * VECTORS;
        float16 *dkey_t = keys->dkey_t + t * SUM_COLUMNS(HEAD_DIM) * VECTORS;
        if (all_see) {
            attend_pairs(p, in, rows, keys, t, 0, tiles, room, dz);
        } else {
            fill_terms(p, in, rows, keys->from + t * TILE_KEYS, room->terms);
            attend_pairs(p, in, rows, keys, t, room->terms, tiles, room, dz);
        }
        if (WANTS_ROW_SUMS) {
            add_row_sums(rows, keys->from + t * TILE_KEYS, all_see, ds_of(room, dz), dz, room);
        }
        if (WANTS_DBIAS && to->bias.gradient) {
            store_bias(p, &to->bias, rows, keys->from + t * TILE_KEYS, ds_of(room, dz));
        }
        if (WANTS_DVALUE && tiles) {
            tiles_add_dvalue(tiles, room->weights, count, dvalue_t);
        } else if (WANTS_DVALUE) {
            add_columns(passes, rows->dout, HEAD_DIM_V, room->weights, count, dvalue_t);
        }
        if ((WANTS_DKEY || WANTS_DQUERY) && tiles) {
            tiles_add_dkey(tiles, t, dz, count, dkey_t);
        } else if (WANTS_DKEY) {
            add_columns(passes, rows->query, HEAD_DIM, dz, count, dkey_t);
        }
    }
    if (WANTS_DQUERY && tiles) {
        tiles_add_dquery(tiles, met.first, met.end, to->begins, count, to->dquery);
    } else if (WANTS_DQUERY && passes) {
        add_dquery_by(rows, keys, met, room->dz, to->begins, 1, to->dquery);
    } else if (WANTS_DQUERY) {
        add_dquery_by(rows, keys, met, room->dz, to->begins, 0, to->dquery);
    }
    if (WANTS_ROW_SUMS) {
        store_row_sums(rows, room, to->begins, to->row_sums);
    }
}

/* ---- a rectangle ------------------------------------------------------------------------------- */

/* Causal splits differ in work; runtimes hand out neighbours together, so a light one stands beside each heavy one. */
static inline int key_split(const clattn_params *p, const work_group *group)
{
    const int split = group->id[0];
    return !HAS(CAUSAL) ? split : split & 1 ? group->count - 1 - split / 2 : split / 2;
}

static inline void begin_sums(float16 *sums, int columns, int count, int goes_on, __global const float *memory)
{
    for (int n = 0; n < (count + TILE_KEYS - 1) / TILE_KEYS * VECTORS * SUM_COLUMNS(columns); ++n) {
        sums[n] = 0.0f;
    }
    if (goes_on) {
        load_sums(sums, columns, count, memory);
    }
}

#define RECTANGLE_ARGUMENTS BACKWARD_ARGUMENTS, const clattn_rectangles work
#define RECTANGLE_NAMES BACKWARD_NAMES, work

GROUP_KERNEL(rectangles, RECTANGLE_ARGUMENTS, RECTANGLE_NAMES)
{
    BACKWARD_INPUTS(p, in);
    GRADIENT_OUTPUT(p);
    const int split = key_split(p, &group), part = group.id[1], own = group.id[2], plane = work.first_group + own;
    const int b = plane / p->kv_heads, kv_head = plane % p->kv_heads;
    const sequence s = sequence_of(p, &in, b);
    const int rectangle = (work.first_row / RECTANGLE_ROWS + part) * RECTANGLE_ROWS;
    const int first = max(rectangle, work.first_row), goes_on = first > rectangle;
    const int all_end = min(rectangle + RECTANGLE_ROWS, work.first_row + work.rows);
    const int end = min(all_end, s.query_len * GROUP);
    const bias_output dbias = { place, WANTS_DBIAS ? gradient : 0 };
    const int key_end = dbias.gradient ? max(s.stored_len, p->bias_key_len) : s.stored_len;
    const kv_source source = { in.key, in.value, key_rows_of(p, &in, &s, b, kv_head),
                               value_rows_of(p, &in, &s, b, kv_head) };
    __global float *dquery = workspace + work.dquery_at + sums_at(p, SUM_DQUERY, work.groups, work.rows, split, own);
    __global float *row_sums =
        workspace + work.row_sums_at + sums_at(p, SUM_ROWS, work.groups, work.rows, split, own);
    __global float *dkey = workspace + work.dkey_at + sums_at(p, SUM_DKEY, work.groups, work.rows, part, own);
    __global float *dvalue = workspace + work.dvalue_at + sums_at(p, SUM_DVALUE, work.groups, work.rows, part, own);
    key_block keys;
    row_block rows;
    scratch room;
    block_tiles tiles;
    TILES_BEGIN();
    for (int from = split * SPLIT_KEYS; from < min((split + 1) * SPLIT_KEYS, key_end); from += BLOCK_KEYS) {
        const int stored = min(BLOCK_KEYS, s.stored_len - from);
        int is_read = 0;
        if (WANTS_DKEY) {
            begin_sums(keys.dkey_t, HEAD_DIM, stored, goes_on, dkey + (size_t)from * HEAD_DIM);
        }
        if (WANTS_DVALUE) {
            begin_sums(keys.dvalue_t, HEAD_DIM_V, stored, goes_on, dvalue + (size_t)from * HEAD_DIM_V);
        }
        for (int row = first; row < end; row += BLOCK_ROWS) {
            rows.at = place_rows(p, &in, &s, b, kv_head, row);
            const int begins = from == max(split * SPLIT_KEYS, rows.at.low / BLOCK_KEYS * BLOCK_KEYS);
            if (!rows_meet(&rows.at, from, from + BLOCK_KEYS) || (!begins && is_hole(p, &rows.at, from))) {
                clear_bias(p, &dbias, b, rows.at.first_head, row, row + rows.at.count, from, from + BLOCK_KEYS);
                continue;
            }
            if (!is_read) {
                read_keys(&source, from, min(BLOCK_KEYS, s.key_len - from), &keys);
                is_read = 1;
                tiles_put_keys(&keys, min(BLOCK_KEYS, s.key_len - from), &tiles);
            }
            pack_rows(p, &in, &dout_place, dout, workspace, &rows);
            const size_t row_of_launch = row - work.first_row;
            const row_outputs to = { dquery + row_of_launch * PADDED_DIM, row_sums + row_of_launch * BLOCK_SUMS, dbias,
                                     begins };
            if (MULTIPLIES_TILES && keys.finite && rows.finite) {
                tiles_put_rows(&rows, &tiles);
                attend(p, &in, &rows, &keys, &to, &tiles, &room);
            } else {
                attend(p, &in, &rows, &keys, &to, 0, &room);
            }
        }
        clear_bias(p, &dbias, b, kv_head * GROUP, max(first, end), all_end, from, from + BLOCK_KEYS);
        if (WANTS_DKEY) {
            store_sums(keys.dkey_t, HEAD_DIM, stored, dkey + (size_t)from * HEAD_DIM);
        }
        if (WANTS_DVALUE) {
            store_sums(keys.dvalue_t, HEAD_DIM_V, stored, dvalue + (size_t)from * HEAD_DIM_V);
        }
    }
    TILES_END();
}
