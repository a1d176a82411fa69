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
 *                                                                  (each block from zero: simd/total.clh)
 *
 * Rows of the heads that share a key/value head lie side by side (simd/mask.clh), so that grouped heads
 * read K and V once and a few query rows of many heads still fill the lanes.
 *
 *     group id 0: block of TILES * ROWS rows     1: key/value head     2: batch entry or packed sequence
 *
 * With lists of keys a block has rows of one list, whose places are walked over as keys are.
 *
 * Keys that only some rows see go through `terms`: -inf hides a score whatever it is. A hidden value that is
 * not finite would still reach the rows that must not see it, as 0 * NaN, and there it stays: where results are
 * NaN in the end, the tiles are computed again with care, and blocks whose values are not all finite take a slow
 * path. To look at all values each time would cost some per cent. The scale is folded into the queries, or into the
 * scores where queries are multiplied as they are stored. */
#include "common/group_kernel.clh"
#include "simd/attend.clh"
#include "simd/attend_amx.clh"
#include "simd/total.clh"

/* Causal blocks differ in work; runtimes hand out neighbours together, so a light one stands beside
 * each heavy one. */
static inline int row_block(const clattn_params *p, const work_group *group)
{
    int block = group->id[0];
    if (HAS(CAUSAL)) {
        block = block & 1 ? group->count - 1 - block / 2 : block / 2;
    }
    return block;
}

/* exp of a difference of logits also below 2^-126, where exp_16 gives 0: keys beside a large sink have weights that
 * small. */
static inline float16 exp_far_16(float16 difference)
{
    const float16 root = exp_16(difference * 0.5f);
    return difference < (float16)(-125.0f / LOG2_OF_LOGIT) ? root * root : exp_16(difference);
}

/* Returns what the mixed values of a vector of rows are multiplied with. A sink is one more logit, without
 * a value. */
static inline float16 finish_rows(const clattn_params *p, const attention_buffers *in, tile *t, int v)
{
    float16 kept = 1.0f;
    t->seen[v] = seen_rows(t, v);
    if (HAS(SINKS)) {
        float16 sink;
        for (int lane = 0; lane < LANES; ++lane) {
            set_lane(&sink, lane, sink_of(p, in, head_of(t, v * LANES + lane)) * LOGIT_UNIT);
        }
        float16 top = max_16(sink, t->row_maximum[v]);
        kept = exp_far_16(t->row_maximum[v] - top);
        t->row_sum[v] = t->row_sum[v] * kept + exp_16(sink - top);
        t->row_maximum[v] = top;
    }
    kept *= HAS(DROPOUT) ? PARAM_REAL(p, keep_scale) : 1.0f;
    return t->seen[v] & t->kept[v] ? kept / t->row_sum[v] : (float16)0.0f;
}

static inline void store_lse(const clattn_params *p, const attention_buffers *in, const tile *t, int v)
{
    for (int lane = 0; lane < rows_in_vector(t, v); ++lane) {
        int r = v * LANES + lane;
        float top = get_lane(&t->row_maximum[v], lane), sum = get_lane(&t->row_sum[v], lane);
        int seen = ((const int *)&t->seen[v])[lane];
        in->lse[lse_at(p, &t->mask.s, t->b, head_of(t, r), position_of(t, r))] =
            lse_of_logit(p, seen, top, sum);
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

GROUP_KERNEL(fused_simd, ATTENTION_ARGUMENTS, ATTENTION_NAMES)
{
    ATTENTION_INPUTS(p, in);
    const int kv_head = group.id[1], b = group.id[2], block_number = row_block(p, &group);
    const sequence s = sequence_of(p, &in, b);
    tile t[TILES];
    query_vector query_t[TILES][QUERY_PARTS * QUERY_STEPS * VECTORS];
    float16 accumulator[TILES][OUT_COLUMNS * VECTORS];
    int tiles = 0;
    for (; tiles < TILES && place_tile(p, &in, &t[tiles], s, b, kv_head, block_number, tiles); ++tiles) {
    }
    int low = NARROWS ? INT_MAX : 0, high = 0;
    for (int n = 0; n < tiles; ++n) {
        low = min(low, t[n].low);
        high = max(high, t[n].high);
    }
    const sequence *of_keys = LISTED && tiles > 0 ? &t[0].mask.s : &s; /* which knows the list */
    const kv_source source = { in.key,
                               in.value,
                               key_rows_of(p, &in, of_keys, b, kv_head),
                               value_rows_of(p, &in, of_keys, b, kv_head),
                               key_scales_of(p, &in, &s, b, kv_head),
                               value_scales_of(p, &in, &s, b, kv_head) };
    tile_room tile_room;
    tile_total total[TILES];
    block_room room;
    int careful = 0, again;
    do {
        for (int n = 0; n < tiles; ++n) {
            t[n].begun = 0;
        }
        int run = low / RUN_KEYS, ended = 0;
        BLOCKS_BEGIN();
        for (int from = low, to; from < high; from = to) {
            if (from >= p->always_visible_keys && from < t[0].window_from) {
                from = t[0].window_from;
                if (from >= high) {
                    break;
                }
            }
            to = from + KEYS;
            if (HAS(BLOCK_MASK) && IN_KEY_ORDER) {
                from = next_seen_key(p, t, tiles, from, high);
                to = end_of_seen_keys(p, t, tiles, from, min(from + KEYS, high));
                if (from >= high) {
                    break;
                }
            }
            if (RUNS && from / RUN_KEYS != run) {
                if (t[0].begun) {
                    end_run(t, tiles, ended++, accumulator, total);
                }
                run = from / RUN_KEYS;
            }
            key_block block = read_block(&source, from, min(to, high) - from, &room);
            attend_tiles(p, &in, t, tiles, &block, query_t, careful, &tile_room, accumulator);
        }
        BLOCKS_END();
        for (int n = 0; n < tiles; ++n) {
            if (!t[n].begun) { /* it meets no key */
                begin_tile(p, &in, &t[n], query_t[n], accumulator[n]);
            }
        }
        if (RUNS && ended) {
            end_run(t, tiles, ended, accumulator, total);
            take_totals(t, tiles, accumulator, total);
        }
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
