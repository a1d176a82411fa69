/* The gradients of queries, keys and values without the matrix of scores, for CPU devices: FlashAttention's backward
 * pass (Dao et al. 2022; Dao 2023) with one pass over the pairs and no atomics. One work-item a work-group; it owns a
 * rectangle of SPLIT_KEYS keys x RECTANGLE_ROWS packed rows of a key/value head and walks over it, a block of keys
 * after the other and in each from block of rows to block of rows:
 *
 *                 keys along the lanes                        columns along the lanes
 *     S  [row][keys] += query[row][c] * key^T[c][keys]        dquery[row][cs] += dZ[row][key] * key[key][cs]
 *     dP [row][keys] += dout [row][c] * value^T[c][keys]
 *     P = exp2(S - lse), dZ = P (dP - D): what a row has is a scalar, so nothing is reduced and nothing rescaled
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
#define WANTS 7 /* bits 1 << SUM_* */
#endif

#ifndef PRODUCT
#define PRODUCT PRODUCT_FMA
#endif

#define WANTS_DQUERY ((WANTS & 1 << SUM_DQUERY) != 0)
#define WANTS_DKEY ((WANTS & 1 << SUM_DKEY) != 0)
#define WANTS_DVALUE ((WANTS & 1 << SUM_DVALUE) != 0)

#include "backward_simd_layout.h"
#include "simd_layout.h"
#include "philox.clh"

#include "backward_product.clh"
#include "backward_sums.clh"
#include "backward_terms.clh"
#include "backward_tiles.clh"

/* Of a tile: [row][VECTORS]; dz: of all tiles of the block of keys. */
typedef struct scratch {
    float16 terms[BLOCK_ROWS * VECTORS], weights[BLOCK_ROWS * VECTORS];
    float16 slack[HAS(SOFTCAP) ? BLOCK_ROWS * VECTORS : 1]; /* 1 - tanh^2 */
    float16 keep[HAS(DROPOUT) ? BLOCK_ROWS * VECTORS : 1];  /* what dropout multiplies weights with */
    float16 dz[TILES * BLOCK_ROWS * VECTORS];
} scratch;

/* What pairs that are hidden have. */
#define HIDDEN_PAIR (-0.0f)
#define IS_HIDDEN_PAIR(x) (as_int16(x) == as_int(HIDDEN_PAIR))

/* Rows r to r + PRODUCT_ROWS - 1 of the `count` that there are in `elements`; the last one is repeated. */
INLINE void find_product_rows(const float *elements, int stride, int r, int count, const float *row[PRODUCT_ROWS])
{
    FOR_PRODUCT_ROWS row[u] = elements + min(r + u, count - 1) * stride;
}

/* Rows r to r + PRODUCT_ROWS - 1 times the keys, or what tiles made of it: products[row][VECTORS], NULL where they did
 * not. */
INLINE void multiply_rows(const row_block *rows, const float *elements, int columns, const float16 *keys_t,
                          const float16 *products, int r, float16 sum[PRODUCT_ROWS][VECTORS])
{
    const float *row[PRODUCT_ROWS];
    if (products) {
        FOR_PRODUCT_ROWS FOR_VECTORS sum[u][v] = products[min(r + u, rows->at.count - 1) * VECTORS + v];
        return;
    }
    FOR_PRODUCT_ROWS FOR_VECTORS sum[u][v] = 0.0f;
    find_product_rows(elements, columns, r, rows->at.count, row);
    product_rows(row, keys_t, columns, sum);
}

/* terms: NULL where all rows see all keys and nothing is added; scores: of tiles, or NULL. */
INLINE void weigh_tile(const clattn_params *p, const row_block *rows, const float16 *key_t, const float16 *terms,
                       const float16 *scores, scratch *room)
{
    const float factor = HAS(SOFTCAP) ? p->scale / p->softcap : p->scale * LOG2_E;
    for (int r = 0; r < rows->at.count; r += PRODUCT_ROWS) {
        float16 sum[PRODUCT_ROWS][VECTORS];
        multiply_rows(rows, rows->query, HEAD_DIM, key_t, scores, r, sum);
        FOR_PRODUCT_ROWS {
            const int i = min(r + u, rows->at.count - 1);
            const float origin = rows->lse[i];
            FOR_VECTORS {
                const int at = i * VECTORS + v;
                float16 logit;
                if (HAS(SOFTCAP)) {
                    const float16 capped = tanh_16(sum[u][v] * factor);
                    room->slack[at] = 1.0f - capped * capped;
                    logit = capped * (p->softcap * LOG2_E) - origin;
                } else {
                    logit = FMA(sum[u][v], (float16)factor, (float16)-origin);
                }
                if (terms) {
                    const float16 weight = exp2_16(logit + terms[at]);
                    room->weights[at] = terms[at] == -INFINITY ? (float16)HIDDEN_PAIR : weight;
                } else {
                    room->weights[at] = exp2_16(logit);
                }
            }
        }
    }
}

/* What dropout multiplies the weights of a tile with. */
static inline void fill_keep(const clattn_params *p, const row_block *rows, int key, scratch *room)
{
    for (int r = 0; r < rows->at.count; ++r) {
        for (int j = 0; j < TILE_KEYS; ++j) {
            const int keeps = dropout_keeps(p, rows->at.b, rows->head[r], rows->position[r], key + j);
            set_lane(&room->keep[r * VECTORS + j / LANES], j % LANES, keeps ? p->keep_scale : 0.0f);
        }
    }
}

static inline void drop_weights(const row_block *rows, scratch *room)
{
    for (int at = 0; at < rows->at.count * VECTORS; ++at) {
        const float16 weight = room->weights[at];
        const int16 drops = (room->keep[at] == 0.0f) & ~IS_HIDDEN_PAIR(weight);
        room->weights[at] = drops ? (float16)0.0f : weight * room->keep[at];
    }
}

/* dZ of the tile, of weights before dropout. products: of tiles, or NULL. */
INLINE void differentiate_tile(const row_block *rows, const float16 *value_t, const float16 *terms,
                               const float16 *products, const scratch *room, float16 *dz)
{
    for (int r = 0; r < rows->at.count; r += PRODUCT_ROWS) {
        float16 sum[PRODUCT_ROWS][VECTORS];
        multiply_rows(rows, rows->dout, HEAD_DIM_V, value_t, products, r, sum);
        FOR_PRODUCT_ROWS {
            const int i = min(r + u, rows->at.count - 1);
            FOR_VECTORS {
                const int at = i * VECTORS + v;
                const float16 weight = room->weights[at];
                float16 by = sum[u][v];
                if (HAS(DROPOUT)) {
                    by = room->keep[at] == 0.0f ? room->keep[at] : by * room->keep[at];
                }
                float16 ds = weight * (by - rows->d[i]);
                if (HAS(SOFTCAP)) {
                    ds *= room->slack[at];
                }
                if (terms) {
                    ds = IS_HIDDEN_PAIR(weight) ? (float16)HIDDEN_PAIR : ds + 0.0f;
                }
                dz[at] = ds;
            }
        }
    }
}

/* ---- products that pass over hidden pairs ------------------------------------------------------ */

static inline void columns_passing(const float *element, int columns, const float16 *pairs, int row_count,
                                   float16 *total)
{
    for (int c = 0; c < columns; ++c) {
        for (int r = 0; r < row_count; ++r) {
            FOR_VECTORS {
                const float16 pair = pairs[r * VECTORS + v], sum = total[c * VECTORS + v];
                total[c * VECTORS + v] = IS_HIDDEN_PAIR(pair) ? sum : FMA((float16)element[r * columns + c], pair, sum);
            }
        }
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

/* Tiles of a block of keys. */
typedef struct tile_range {
    int first, end;
} tile_range;

/* Those of which the rows may see a key. Rows and block meet. */
static inline tile_range tiles_met(const row_place *at, int from)
{
    const tile_range met = { max(at->low - from, 0) / TILE_KEYS,
                             min((at->high - from + TILE_KEYS - 1) / TILE_KEYS, TILES) };
    return met;
}

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
                if (!begins && r + u < rows->at.count) {
                    sum[u][v] = vload16(v, to + (size_t)(r + u) * PADDED_DIM + c);
                }
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
                    vstore16(sum[u][v], v, to + (size_t)(r + u) * PADDED_DIM + c);
                }
            }
        }
    }
}

/* Weights and dZ of a tile of keys. terms: NULL or the room's own; tiles: NULL where the matrix unit is not used. */
INLINE void attend_pairs(const clattn_params *p, const row_block *rows, const key_block *keys, int t,
                         const float16 *terms, const block_tiles *tiles, scratch *room, float16 *dz)
{
    const float16 *key_t = keys->key_t + t * HEAD_DIM * VECTORS, *value_t = keys->value_t + t * HEAD_DIM_V * VECTORS;
    if (tiles) {
        tiles_score(tiles, t, rows->at.count, room->weights);
    }
    weigh_tile(p, rows, key_t, terms, tiles ? room->weights : 0, room);
    if (HAS(DROPOUT)) {
        fill_keep(p, rows, keys->from + t * TILE_KEYS, room);
    }
    if (WANTS_DQUERY || WANTS_DKEY) {
        if (tiles) {
            tiles_multiply_dout(tiles, t, rows->at.count, dz);
        }
        differentiate_tile(rows, value_t, terms, tiles ? dz : 0, room, dz);
    }
    if (WANTS_DVALUE && HAS(DROPOUT)) {
        drop_weights(rows, room);
    }
}

/* With tiles, where all is finite: nothing has to be passed over, and dZ is theirs. */
INLINE void attend(const clattn_params *p, const attention_buffers *in, const row_block *rows, key_block *keys,
                   int begins, __global float *dquery, block_tiles *tiles, scratch *room)
{
    const int all_see = nothing_to_add(p, rows, keys->from), count = rows->at.count;
    const int passes = !tiles && !all_see && !(rows->finite && keys->finite);
    const tile_range met = tiles_met(&rows->at, keys->from);
    for (int t = met.first; t < met.end; ++t) {
        float16 *dz = room->dz + (tiles ? 0 : t * BLOCK_ROWS * VECTORS);
        float16 *dvalue_t = keys->dvalue_t + t * SUM_COLUMNS(HEAD_DIM_V) * VECTORS;
        float16 *dkey_t = keys->dkey_t + t * SUM_COLUMNS(HEAD_DIM) * VECTORS;
        if (all_see) {
            attend_pairs(p, rows, keys, t, 0, tiles, room, dz);
        } else {
            fill_terms(p, in, rows, keys->from + t * TILE_KEYS, room->terms);
            attend_pairs(p, rows, keys, t, room->terms, tiles, room, dz);
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
        tiles_add_dquery(tiles, met.first, met.end, begins, count, dquery);
    } else if (WANTS_DQUERY && passes) {
        add_dquery_by(rows, keys, met, room->dz, begins, 1, dquery);
    } else if (WANTS_DQUERY) {
        add_dquery_by(rows, keys, met, room->dz, begins, 0, dquery);
    }
}

/* ---- a rectangle ------------------------------------------------------------------------------- */

/* Causal splits differ in work; runtimes hand out neighbours together, so a light one stands beside each heavy one. */
static inline int key_split(const clattn_params *p)
{
    const int split = (int)get_group_id(0);
    return !HAS(CAUSAL) ? split : split & 1 ? (int)get_num_groups(0) - 1 - split / 2 : split / 2;
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
rectangles(BACKWARD_ARGUMENTS, const clattn_rectangles work)
{
    BACKWARD_INPUTS(p, in);
    const int split = key_split(p), part = (int)get_group_id(1), group = (int)get_group_id(2);
    const int b = (work.first_group + group) / p->kv_heads, kv_head = (work.first_group + group) % p->kv_heads;
    const sequence s = sequence_of(p, &in, b);
    const int rectangle = (work.first_row / RECTANGLE_ROWS + part) * RECTANGLE_ROWS;
    const int first = max(rectangle, work.first_row), goes_on = first > rectangle;
    const int end = min(min(rectangle + RECTANGLE_ROWS, work.first_row + work.rows), s.query_len * GROUP);
    const kv_source source = { in.key, in.value, key_rows_of(p, &in, &s, b, kv_head),
                               value_rows_of(p, &in, &s, b, kv_head) };
    __global float *dquery = workspace + work.dquery_at + sums_at(p, SUM_DQUERY, work.groups, work.rows, split, group);
    __global float *dkey = workspace + work.dkey_at + sums_at(p, SUM_DKEY, work.groups, work.rows, part, group);
    __global float *dvalue = workspace + work.dvalue_at + sums_at(p, SUM_DVALUE, work.groups, work.rows, part, group);
    key_block keys;
    row_block rows;
    scratch room;
    block_tiles tiles;
    TILES_BEGIN();
    for (int from = split * SPLIT_KEYS; from < min((split + 1) * SPLIT_KEYS, s.stored_len); from += BLOCK_KEYS) {
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
            if (!rows_meet(&rows.at, from, from + BLOCK_KEYS)) {
                continue;
            }
            if (!is_read) {
                read_keys(&source, from, min(BLOCK_KEYS, s.key_len - from), &keys);
                is_read = 1;
                tiles_put_keys(&keys, min(BLOCK_KEYS, s.key_len - from), &tiles);
            }
            pack_rows(p, &in, &dout_place, dout, workspace, &rows);
            const int begins = from == max(split * SPLIT_KEYS, rows.at.low / BLOCK_KEYS * BLOCK_KEYS);
            __global float *dquery_of = dquery + (size_t)(row - work.first_row) * PADDED_DIM;
            if (MULTIPLIES_TILES && keys.finite && rows.finite) {
                tiles_put_rows(&rows, &tiles);
                attend(p, &in, &rows, &keys, begins, dquery_of, &tiles, &room);
            } else {
                attend(p, &in, &rows, &keys, begins, dquery_of, 0, &room);
            }
        }
        if (WANTS_DKEY) {
            store_sums(keys.dkey_t, HEAD_DIM, stored, dkey + (size_t)from * HEAD_DIM);
        }
        if (WANTS_DVALUE) {
            store_sums(keys.dvalue_t, HEAD_DIM_V, stored, dvalue + (size_t)from * HEAD_DIM_V);
        }
    }
    TILES_END();
}
