/* fused_simd: attention without the matrix of scores, for CPU devices: FlashAttention (Dao et al. 2022; Dao 2023) by
 * an online softmax (Milakov and Gimelshein 2018). One work-item a work-group; it owns tiles of ROWS = 16 * VECTORS
 * query rows, which lie along the lanes of float16 vectors, and walks over the keys in blocks of KEYS. Both products
 * have the form "an element of K or V, broadcast, times a vector of rows", so K and V are read in the layout that the
 * caller has, and row maximum and row sum need no reduction.
 *
 *                    query^T                                    scores / weights
 *            rows 0-15  16-31 ...                              rows 0-15  16-31 ...
 *     c = 0  [.......] [.......]                       key 0   [.......] [.......]
 *     c = 1  [.......] [.......]                       key 1   [.......] [.......]
 *
 *     scores[key][rows]    += key[key][c] * query^T[c][rows]       SCORE_KEYS keys at once in registers
 *     accumulator[c][rows] += value[key][c] * weights[key][rows]   MIX_COLUMNS columns at once in registers
 *
 * Rows of the heads that share a key/value head lie side by side (simd_mask.clh), so that grouped heads
 * read K and V once and a few query rows of many heads still fill the lanes.
 *
 *     group id 0: block of TILES * ROWS rows     1: key/value head     2: batch entry or packed sequence
 *
 * Keys that only some rows see go through `terms`: -inf hides a score whatever it is. A hidden value that is
 * not finite would still reach the rows that must not see it, as 0 * NaN, and there it stays: where results are
 * NaN in the end, the tiles are computed again with care, and blocks whose values are not all finite take a slow
 * path. To look at all values each time would cost some per cent. Scores are in units of log2: scale * log2(e) is
 * folded into the queries, or into the scores where queries are multiplied as they are stored. */
#include "simd_block.clh"

/* The rows of a work-group and their softmax so far; a row that has seen no key has maximum -inf. */
typedef struct tile {
    lane_mask mask;
    int b, first_head;
    int first_row, rows; /* of this tile, and of the key/value head in all */
    int high, window_from; /* the keys that any row sees end here; the window's first block of them */
    int low;               /* the first block of keys that the rows' ranges have */
    float16 row_maximum[VECTORS], row_sum[VECTORS];
    int16 seen[VECTORS], kept[VECTORS]; /* kept: some weight survived dropout */
} tile;

/* Query position and head of a row; those past the end repeat the last one. */
static inline int position_of(const tile *t, int r)
{
    return min(t->first_row + r, t->rows - 1) / GROUP;
}

static inline int head_of(const tile *t, int r)
{
    return t->first_head + min(t->first_row + r, t->rows - 1) % GROUP;
}

/* The last vector of the last tile may have fewer rows, or none. */
static inline int rows_in_vector(const tile *t, int v)
{
    return min(LANES, t->rows - t->first_row - v * LANES);
}

/* Causal blocks differ in work; runtimes hand out neighbours together, so a light one stands beside
 * each heavy one. */
static inline int row_block(const clattn_params *p)
{
    int block = (int)get_group_id(0);
    if (HAS(CAUSAL)) {
        block = block & 1 ? (int)get_num_groups(0) - 1 - block / 2 : block / 2;
    }
    return block;
}

static inline void load_queries(const clattn_params *p, const attention_buffers *in, tile *t,
                                query_vector *query_t)
{
    for (int v = 0; v < VECTORS; ++v) {
        __global const ELEMENT_QUERY *row[LANES];
        for (int lane = 0; lane < LANES; ++lane) {
            int r = v * LANES + lane, i = position_of(t, r), h = head_of(t, r);
            lane_mask_set_row(p, in, &t->mask, r, t->b, h, i);
            row[lane] = in->query + query_row_at(p, &t->mask.s, t->b, h, i);
        }
        put_queries(row, COLUMN_STRIDE(query), score_factor(p), query_t + v);
        t->row_maximum[v] = -INFINITY;
        t->row_sum[v] = 0.0f;
        t->seen[v] = 0;
        t->kept[v] = HAS(DROPOUT) ? 0 : -1;
    }
}

/* Takes over a block's maximum. Returns in `rescale` what the old sums count for now, 1 also between two infinite
 * maxima, whose NaN is in the weights; and in `origin` what is subtracted from scores: 0 while a row has seen
 * nothing, so that -inf stays -inf. */
static inline void move_maximum(tile *t, const float16 maximum[VECTORS], float16 rescale[VECTORS],
                                float16 origin[VECTORS])
{
    for (int v = 0; v < VECTORS; ++v) {
        origin[v] = maximum[v] == -INFINITY ? 0.0f : maximum[v];
        rescale[v] = t->row_maximum[v] == origin[v] ? (float16)1.0f : exp2_16(t->row_maximum[v] - origin[v]);
        t->row_sum[v] *= rescale[v];
        t->row_maximum[v] = maximum[v];
    }
}

/* A weight of 0 has met a value that is not finite, or a row is NaN anyway. */
static inline int any_is_nan(const float16 *accumulator)
{
    int16 found = 0;
    for (int c = 0; c < HEAD_DIM_V * VECTORS; ++c) {
        found |= isnan(accumulator[c]);
    }
    return any(found);
}

/* `terms`, `scores` and `weights` have room for a block. `careful`: a value that is not finite must not reach
 * the rows that do not see it. */
static inline void attend_block(const clattn_params *p, const attention_buffers *in, tile *t, key_block *block,
                                const query_vector *query_t, int careful, float16 *terms, float16 *scores,
                                weight_vector *weights, float16 *accumulator)
{
    const int from = block->from, count = min(block->count, t->high - from);
    if (count <= 0 || (from >= p->always_visible_keys && from < t->window_from) || from < t->low) {
        return;
    }
    const int full = block_is_full(p, &t->mask, from, count);
    if (!full) {
        if (!fill_terms(p, in, &t->mask, from, count, t->seen, terms)) {
            return;
        }
    }
    float16 maximum[VECTORS], rescale[VECTORS], origin[VECTORS];
    for (int v = 0; v < VECTORS; ++v) {
        maximum[v] = t->row_maximum[v];
        t->seen[v] |= full ? -1 : 0;
    }
    score_block(p, block, count, query_t, score_factor(p), full ? 0 : terms, scores, maximum);
    move_maximum(t, maximum, rescale, origin);
    weigh_block(count, origin, scores, weights, t->row_sum);
    for (int r = 0; HAS(DROPOUT) && r < ROWS; ++r) {
        int kept = drop_weights(p, t->b, head_of(t, r), position_of(t, r), r, from, count,
                                full ? 0 : terms, weights);
        ((int *)&t->kept[r / LANES])[r % LANES] |= kept ? -1 : 0;
    }
    const int looks = careful & (NEEDS_FINITE_VALUES | !full);
    if (!looks || values_are_finite(block, count)) {
        mix_block(block, count, weights, rescale, accumulator);
    } else {
        mix_block_hiding(block, count, weights, full ? 0 : terms, rescale, accumulator);
    }
}

/* Returns what the mixed values of a vector of rows are multiplied with. A sink is one more logit, without
 * a value. */
static inline float16 finish_rows(const clattn_params *p, const attention_buffers *in, tile *t, int v)
{
    float16 kept = 1.0f;
    if (HAS(SINKS)) {
        float16 sink;
        for (int lane = 0; lane < LANES; ++lane) {
            set_lane(&sink, lane, sink_of(p, in, head_of(t, v * LANES + lane)) * LOG2_E);
        }
        float16 top = max_16(sink, t->row_maximum[v]);
        kept = exp2_16(t->row_maximum[v] - top);
        t->row_sum[v] = t->row_sum[v] * kept + exp2_16(sink - top);
        t->row_maximum[v] = top;
    }
    kept *= HAS(DROPOUT) ? p->keep_scale : 1.0f;
    return t->seen[v] & t->kept[v] ? kept / t->row_sum[v] : (float16)0.0f;
}

static inline void store_lse(const clattn_params *p, const attention_buffers *in, const tile *t, int v)
{
    for (int lane = 0; lane < rows_in_vector(t, v); ++lane) {
        int r = v * LANES + lane;
        float top = get_lane(&t->row_maximum[v], lane), sum = get_lane(&t->row_sum[v], lane);
        int seen = ((const int *)&t->seen[v])[lane];
        in->lse[lse_at(p, &t->mask.s, t->b, head_of(t, r), position_of(t, r))] =
            seen ? top * LN_2 + log(sum) : -INFINITY;
    }
}

static inline void store_out(const clattn_params *p, const attention_buffers *in, const tile *t, int v,
                             float16 factor, const float16 *accumulator)
{
    clattn_i64 row_at[LANES];
    for (int lane = 0; lane < LANES; ++lane) {
        int r = v * LANES + lane;
        row_at[lane] = out_row_at(p, &t->mask.s, t->b, head_of(t, r), position_of(t, r));
    }
    store_rows_transposed(accumulator + v, factor, HEAD_DIM_V, COLUMN_STRIDE(out), rows_in_vector(t, v), row_at,
                          in->out);
}

/* 0: there are no such rows. */
static inline int place_tile(const clattn_params *p, const attention_buffers *in, tile *t, sequence s, int b,
                             int kv_head, int number)
{
    t->mask.s = s;
    t->b = b;
    t->first_head = kv_head * GROUP;
    t->first_row = number * ROWS;
    t->rows = s.query_len * GROUP;
    if (t->first_row >= t->rows) {
        return 0;
    }
    t->mask.first = position_of(t, 0);
    t->mask.last = position_of(t, ROWS - 1);
    narrow_to_rows(p, in, &t->mask.s, b, t->first_head, GROUP, t->mask.first, t->mask.last);
    t->high = key_high(p, &t->mask.s, t->mask.last);
    t->window_from = window_low(p, &s, t->mask.first) / KEYS * KEYS;
    t->low = HAS(ROW_RANGES) ? t->mask.s.low / KEYS * KEYS : 0;
    return 1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fused_simd(ATTENTION_ARGUMENTS)
{
    ATTENTION_INPUTS(p, in);
    const int kv_head = (int)get_group_id(1), b = (int)get_group_id(2), first = row_block(p) * TILES;
    const sequence s = sequence_of(p, &in, b);
    tile t[TILES];
    query_vector query_t[TILES][QUERY_PARTS * QUERY_STEPS * VECTORS];
    float16 accumulator[TILES][OUT_COLUMNS * VECTORS];
    int tiles = 0;
    for (; tiles < TILES && place_tile(p, &in, &t[tiles], s, b, kv_head, first + tiles); ++tiles) {
    }
    int low = HAS(ROW_RANGES) ? INT_MAX : 0, high = 0;
    for (int n = 0; n < tiles; ++n) {
        low = min(low, t[n].low);
        high = max(high, t[n].high);
    }
    const kv_source source = { in.key,
                               in.value,
                               key_rows_of(p, &in, &s, b, kv_head),
                               value_rows_of(p, &in, &s, b, kv_head),
                               key_scales_of(p, &in, &s, b, kv_head),
                               value_scales_of(p, &in, &s, b, kv_head) };
    float16 terms[KEYS * VECTORS], scores[KEYS * VECTORS];
#if WEIGHTS_APART
    weight_vector block_weights[WEIGHT_PARTS * KEYS / 2 * VECTORS];
#else
    weight_vector *block_weights = scores;
#endif
    block_room room;
    int careful = 0, again;
    do {
        for (int n = 0; n < tiles; ++n) {
            load_queries(p, &in, &t[n], query_t[n]);
            for (int c = 0; c < OUT_COLUMNS * VECTORS; ++c) {
                accumulator[n][c] = 0.0f;
            }
        }
        BLOCKS_BEGIN();
        for (int from = low; from < high; from += KEYS) {
            if (from >= p->always_visible_keys && from < t[0].window_from) {
                from = t[0].window_from;
                if (from >= high) {
                    break;
                }
            }
            key_block block = read_block(&source, from, min(KEYS, high - from), &room);
            for (int n = 0; n < tiles; ++n) {
                attend_block(p, &in, &t[n], &block, query_t[n], careful, terms, scores, block_weights, accumulator[n]);
            }
        }
        BLOCKS_END();
        again = 0;
        for (int n = 0; !careful && n < tiles; ++n) {
            again |= any_is_nan(accumulator[n]);
        }
        careful = 1;
    } while (again);
    for (int n = 0; n < tiles; ++n) {
        for (int v = 0; v < VECTORS; ++v) {
            float16 factor = finish_rows(p, &in, &t[n], v);
            store_out(p, &in, &t[n], v, factor, accumulator[n]);
            if (HAS(LSE)) {
                store_lse(p, &in, &t[n], v);
            }
        }
    }
}
