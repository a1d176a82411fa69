/* Sums of weights, and largest logits, for CPU devices: the first half of simd/fused_simd.cl, turned round. One
 * work-item a work-group owns KEYS keys of the GROUP heads side by side, and walks over their rows in tiles, which lie
 * along the lanes of float16 vectors:
 *
 *     scores[key][rows] += key[key][c] * query^T[c][rows]        SCORE_KEYS keys at once in registers
 *     sum[key][rows]    += exp(score - lse)                      KEY_SUMS_ROWS tiles, then to the total and its rest
 *     key_sums[key]      = the lanes of a head, in their order
 *
 * A tile has whole rows of heads, so that a lane is of one head in all of them: lanes behind those stay empty. Tiles of
 * rows that are summed begin at the first of them; those before are asked for their largest logit alone.
 *
 *     group id 0: block of KEYS keys     1: GROUP heads     2: batch entry or packed sequence */
#define READS_VALUES 0
#include "common/group_kernel.clh"
#include "key_sums/rows.clh"
#include "simd/attend.clh"
#include "common/sum_and_rest.clh"

#ifndef RUNS
#define RUNS 1 /* 0: there are no more tiles than are added at once */
#endif

#define TILE_ROWS (ROWS / GROUP * GROUP)

DEFINE_ADD_EXACTLY(add_exactly_16, float16)

/* What each lane has found: of each key, its weights so far; and the largest logit. */
typedef struct lane_sums {
    float16 sum[KEYS * VECTORS];
#if RUNS
    float16 total[KEYS * VECTORS], rest[KEYS * VECTORS];
#endif
    float16 largest[VECTORS];
} lane_sums;

/* Lanes that have a row; those whose weights are added, counted from lse, in units of logits. Others repeat the last
 * row, which may be one of another head. */
typedef struct lane_rows {
    int16 exists[VECTORS], adds[VECTORS];
    float16 lse[VECTORS];
} lane_rows;

static inline void clear_sums(lane_sums *sums)
{
    for (int at = 0; at < KEYS * VECTORS; ++at) {
        sums->sum[at] = 0.0f;
#if RUNS
        sums->total[at] = sums->rest[at] = 0.0f;
#endif
    }
    for (int v = 0; v < VECTORS; ++v) {
        sums->largest[v] = -INFINITY;
    }
}

static inline void end_run(lane_sums *sums)
{
#if RUNS
    for (int at = 0; at < KEYS * VECTORS; ++at) {
        add_exactly_16(&sums->total[at], &sums->rest[at], sums->sum[at]);
        sums->sum[at] = 0.0f;
    }
#endif
}

static inline void find_rows(const clattn_params *p, const attention_buffers *in, const tile *t, int is_summed,
                             lane_rows *rows)
{
    for (int v = 0; v < VECTORS; ++v) {
        rows->lse[v] = 0.0f;
        rows->exists[v] = rows->adds[v] = 0;
        for (int lane = 0; lane < rows_in_vector(t, v); ++lane) {
            const int r = v * LANES + lane;
            const float lse =
                is_summed ? row_lse(p, in, &t->mask.s, t->b, head_of(t, r), position_of(t, r)) : -INFINITY;
            ((int *)&rows->exists[v])[lane] = -1;
            ((int *)&rows->adds[v])[lane] = lse != -INFINITY ? -1 : 0;
            set_lane(&rows->lse[v], lane, lse != -INFINITY ? lse * LOGIT_UNIT : 0.0f);
        }
    }
}

static inline float16 larger_logit_16(float16 a, float16 b)
{
    return (b > a) | isnan(b) ? b : a;
}

/* Logits of a vector of rows and a key; -inf: the row does not see it. */
static inline void take_logits(float16 logits, const lane_rows *rows, int v, float16 *sum, float16 *largest)
{
    if (WANTS_MAX) {
        *largest = rows->exists[v] ? larger_logit_16(*largest, logits) : *largest;
    }
    if (WANTS_SUMS) {
        const int16 adds = rows->adds[v] & (logits != -INFINITY);
        *sum += adds ? exp_16(logits - rows->lse[v]) : (float16)0.0f;
    }
}

/* A tile of rows against the block, which begins at key `from`. */
static inline void take_tile(const clattn_params *p, const attention_buffers *in, tile *t, key_block *block,
                             const query_vector *query_t, const lane_rows *rows, float16 *terms, lane_sums *sums)
{
    const int from = block->from, count = keys_met(p, t, from, block->count);
    if (count <= 0) {
        return;
    }
    const int full = block_is_full(p, &t->mask, from, count);
    if (!full) {
        if (!fill_terms(p, in, &t->mask, t->b, from, count, t->seen, terms)) {
            return;
        }
    }
    for (int j = 0; j < count; j += SCORE_KEYS) {
        float16 score[SCORE_KEYS][VECTORS];
        score_keys(block, j, count, query_t, score);
        #pragma unroll
        for (int u = 0; u < SCORE_KEYS; ++u) {
            #pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                const int at = (j + u) * VECTORS + v;
                const pair_places places = places_of_rows(&t->mask, t->b, v, from + min(j + u, count - 1));
                const float16 logits = finish_logits(p, in, &places, score[u][v], full ? 0 : terms + at);
                if (j + u < count) {
                    take_logits(logits, rows, v, &sums->sum[at], &sums->largest[v]);
                }
            }
        }
    }
}

/* What the lanes of head `h` of the group have of a key. */
static inline float sum_of_head(const lane_sums *sums, int key, int h)
{
    float sum = 0.0f;
    for (int r = h; r < TILE_ROWS; r += GROUP) {
        const int at = key * VECTORS + r / LANES;
#if RUNS
        sum += get_lane(&sums->total[at], r % LANES) + get_lane(&sums->rest[at], r % LANES);
#else
        sum += get_lane(&sums->sum[at], r % LANES);
#endif
    }
    return sum;
}

static inline float max_of_head(const lane_sums *sums, int h)
{
    float largest = -INFINITY;
    for (int r = h; r < TILE_ROWS; r += GROUP) {
        largest = larger_logit(largest, get_lane(&sums->largest[r / LANES], r % LANES));
    }
    return largest * (1 / LOGIT_UNIT);
}

static inline void store_sums(const clattn_params *p, const clattn_key_sums_places *places, const lane_sums *sums,
                              int b, int first_head, int from, int blocks, int block, __global float *key_sums,
                              __global float *maxima)
{
    for (int h = 0; h < GROUP; ++h) {
        for (int key = 0; WANTS_SUMS && key < min(KEYS, p->key_len - from); ++key) {
            key_sums[key_sum_at(places, b, first_head + h, from + key)] = sum_of_head(sums, key, h);
        }
        if (WANTS_MAX) {
            maxima[((size_t)b * p->query_heads + first_head + h) * blocks + block] = max_of_head(sums, h);
        }
    }
}

/* Tiles of rows [first, end) of the heads, packed. */
static inline void take_rows(const clattn_params *p, const attention_buffers *in, const sequence *s, int b,
                             int first_head, int first, int end, int is_summed, key_block *block, lane_sums *sums)
{
    float16 terms[KEYS * VECTORS];
    query_vector query_t[QUERY_PARTS * QUERY_STEPS * VECTORS];
    int taken = 0;
    for (int row = first; row < end; row += TILE_ROWS) {
        tile t;
        lane_rows rows;
        place_rows(p, in, &t, s, b, first_head, row, min(row + TILE_ROWS, end));
        if (keys_met(p, &t, block->from, block->count) > 0) {
            load_queries(p, in, &t, query_t);
            find_rows(p, in, &t, is_summed, &rows);
            take_tile(p, in, &t, block, query_t, &rows, terms, sums);
        }
        if (is_summed && ++taken % KEY_SUMS_ROWS == 0) {
            end_run(sums);
        }
    }
    if (is_summed) {
        end_run(sums);
    }
}

GROUP_KERNEL(key_sums_simd, KEY_SUMS_ARGUMENTS, KEY_SUMS_NAMES)
{
    ATTENTION_INPUTS(p, in);
    const int from = group.id[0] * KEYS, first_head = group.id[1] * GROUP, b = group.id[2];
    const int kv_head = first_head / (p->query_heads / p->kv_heads);
    sequence s = sequence_of(p, &in, b);
    kv_source source;
    block_room room;
    lane_sums sums;
    source.key = in.key;
    source.keys = key_rows_of(p, &in, &s, b, kv_head);
    source.key_scales = key_scales_of(p, &in, &s, b, kv_head);
    clear_sums(&sums);
    const int count = min(KEYS, s.key_len - from), first = first_summed_row(&s, &places);
    if (count > 0) {
        key_block block = read_block(&source, from, count, &room);
        if (WANTS_MAX) {
            take_rows(p, &in, &s, b, first_head, 0, first * GROUP, 0, &block, &sums);
        }
        take_rows(p, &in, &s, b, first_head, first * GROUP, s.query_len * GROUP, 1, &block, &sums);
    }
    store_sums(p, &places, &sums, b, first_head, from, group.count, group.id[0], key_sums, maxima);
}
