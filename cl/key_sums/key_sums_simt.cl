/* Sums of weights, and largest logits, for GPUs: the first half of simt/fused_simt.cl, turned round. A work-group owns
 * TILE_KEYS keys of a head and walks over its rows, TILE_ROWS at a time, with the layout of simt/tile.clh:
 *
 *     group 0: block of TILE_KEYS keys      2: batch * head
 *
 *     scores   += queries * keys          through stage, SIMT_DEPTH columns at a time
 *     logits    = scores, scaled, masked
 *     sum[key] += exp(logits - lse)       of the work-item's rows; joins the total of those before, with its rest
 *
 * In the end what the ITEMS_Y work-items of a key have is added in their order. Tiles of rows that are summed begin at
 * the first of them; those before are asked for their largest logit alone. Every work-item passes every barrier: loop
 * bounds depend on the group alone. */
#include "simt/total.clh"
#include "key_sums/rows.clh"

#define SCORES SIMT_WEIGHTS(TILE_ROWS, TILE_KEYS)
#if ITEMS_Y * TILE_KEYS > STAGE || ITEMS_Y * TILE_KEYS > SCORES
#error "in the end the stage has sums of all work-items, and the tile of scores has maxima"
#endif

/* What a work-item has of each of its keys. */
typedef struct key_totals {
    REAL sum[ITEM_KEYS], rest[ITEM_KEYS], largest[ITEM_KEYS];
} key_totals;

/* Rows [first, last] of a head, whose bounds are theirs from here on. */
INLINE void move_to_rows(const clattn_params *p, const attention_buffers *in, const sequence *s, int first, int last,
                         row_block *rows)
{
    rows->s = *s;
    rows->first_row = first;
    rows->last_row = last;
    narrow_to_rows(p, in, &rows->s, rows->b, rows->h, 1, first, last);
}

/* The last row of the tile that begins at `row`: rows that are summed have tiles of their own. */
INLINE int last_row_of_tile(int row, int first_summed, int rows)
{
    return min(row + TILE_ROWS, row < first_summed ? first_summed : rows) - 1;
}

/* Whether some of the rows may see a key of the tile. */
INLINE int rows_meet_keys(const clattn_params *p, const row_block *rows, int from)
{
    const int low = key_low(p, &rows->s, rows->first_row), high = key_high(p, &rows->s, rows->last_row);
    if (from >= high || from + TILE_KEYS <= low) {
        return 0;
    }
    if (from >= p->always_visible_keys && from + TILE_KEYS <= window_low(p, &rows->s, rows->first_row)) {
        return 0;
    }
    return !HAS(BLOCK_MASK) || blocks_met(p, &rows->s.blocks, from, min(TILE_KEYS, high - from)) != SOME_EMPTY;
}

/* The next tile of rows from `row` on that meets the keys; past the last row where there is none. */
INLINE int next_rows(const clattn_params *p, const attention_buffers *in, const sequence *s, int row, int first_summed,
                     int from, row_block *rows)
{
    while (row < s->query_len) {
        move_to_rows(p, in, s, row, last_row_of_tile(row, first_summed, s->query_len), rows);
        if (rows_meet_keys(p, rows, from)) {
            break;
        }
        row = rows->last_row + 1;
    }
    return row;
}

/* Logits become weights, added up over the work-item's rows. */
INLINE void take_logits(const clattn_params *p, const attention_buffers *in, const place *at, int is_summed,
                        REAL score[ITEM_ROWS][ITEM_KEYS], key_totals *totals)
{
    REAL sum[ITEM_KEYS];
    FOR_KEYS sum[n] = 0;
    FOR_ROWS {
        const int i = row_of(at, r), exists = i <= at->rows.last_row;
        const REAL lse =
            exists & is_summed ? row_lse(p, in, &at->rows.s, at->rows.b, at->rows.h, i) : -(REAL)INFINITY;
        const int adds = lse != -(REAL)INFINITY;
        FOR_KEYS {
            const int sees = exists & !IS_HIDDEN_LOGIT(score[r][n]);
            const REAL weight = EXP_LESS(score[r][n], adds ? lse : (REAL)0);
            sum[n] += sees & adds ? weight : (REAL)0;
            totals->largest[n] = sees ? larger_logit(totals->largest[n], score[r][n]) : totals->largest[n];
        }
    }
    FOR_KEYS add_exactly(&totals->sum[n], &totals->rest[n], sum[n]);
}

/* What the work-items of a key have becomes the key's, and the largest logit of all keys the tile's. */
INLINE void store_keys(const clattn_params *p, const clattn_key_sums_places *places, const place *at, int from,
                       const key_totals *totals, __local REAL *stage, __local REAL *largest, __global REAL *key_sums,
                       __global REAL *maxima)
{
    const int b = at->rows.b, h = at->rows.h, keys = min(TILE_KEYS, p->key_len - from);
    FOR_KEYS {
        const int cell = at->y * TILE_KEYS + ITEM_KEY(at->x, n);
        stage[cell] = totals->sum[n] + totals->rest[n];
        largest[cell] = totals->largest[n];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int key = (int)get_local_id(0); key < keys; key += WORK_ITEMS) {
        REAL sum = 0, most = -INFINITY;
        for (int y = 0; y < ITEMS_Y; ++y) {
            sum += stage[y * TILE_KEYS + key];
            most = larger_logit(most, largest[y * TILE_KEYS + key]);
        }
        if (WANTS_SUMS) {
            key_sums[key_sum_at(places, b, h, from + key)] = sum;
        }
        largest[key] = most; /* of this column the work-item alone has read */
    }
    if (WANTS_MAX) { /* a constant: no barrier stands in a branch */
        barrier(CLK_LOCAL_MEM_FENCE);
        REAL most = -INFINITY;
        for (int key = 0; key < keys; ++key) {
            most = larger_logit(most, largest[key]);
        }
        if (get_local_id(0) == 0) {
            const int blocks = (p->key_len - 1) / TILE_KEYS + 1;
            maxima[((size_t)b * p->query_heads + h) * blocks + from / TILE_KEYS] = most;
        }
    }
}

__kernel WORK_GROUP LEAST_SUB_GROUP void key_sums_simt(KEY_SUMS_ARGUMENTS, int first_key, int first_plane)
{
    ATTENTION_INPUTS(p, in);
    __local REAL stage[STAGE] __attribute__((aligned(LOCAL_ALIGNMENT)));
    __local REAL scores[SCORES] __attribute__((aligned(LOCAL_ALIGNMENT)));
    const int plane = first_plane + (int)get_group_id(2), from = first_key + (int)get_group_id(0) * TILE_KEYS;
    place at;
    at.rows.b = plane / p->query_heads;
    at.rows.h = plane % p->query_heads;
    at.rows.kv_head = kv_head_of(p, at.rows.h);
    at.rows.terms = score_terms_of(p, &in, at.rows.b, at.rows.h);
    at.x = ITEM_X((int)get_local_id(0));
    at.y = ITEM_Y((int)get_local_id(0));
    const sequence s = sequence_of(p, &in, at.rows.b);
    const int first_summed = first_summed_row(&s, &places), away = not_known(p);
    const kv_rows head_keys = key_rows_of(p, &in, &s, at.rows.b, at.rows.kv_head);
    const kv_scales head_scales = key_scales_of(p, &in, &s, at.rows.b, at.rows.kv_head);
    const kv_rows keys = rows_from_key(head_keys, from);
    const kv_scales scales = scales_from_key(head_scales, from);
    column_runs runs_of_columns;
    key_totals totals;
    FOR_KEYS {
        totals.sum[n] = totals.rest[n] = 0;
        totals.largest[n] = -INFINITY;
    }
    /* Keys past the sequence's last meet no rows. */
    int row = from < s.key_len ? (WANTS_MAX ? 0 : first_summed) : s.query_len;
    for (row = next_rows(p, &in, &s, row, first_summed, from, &at.rows); row < s.query_len;
         row = next_rows(p, &in, &s, at.rows.last_row + 1, first_summed, from, &at.rows)) {
        const clattn_i64 query_at = query_start(p, &at.rows);
        REAL score[ITEM_ROWS][ITEM_KEYS];
        uint seen = 0;
        FOR_ROWS FOR_KEYS score[r][n] = 0;
        for (int column = 0; column < p->head_dim; column += SIMT_DEPTH) {
            barrier(CLK_LOCAL_MEM_FENCE);
            stage_queries(p, &in, query_at, at.rows.last_row - at.rows.first_row, column, stage);
            stage_keys(p, &in, &keys, &scales, s.key_len - 1 - from, column, stage + KEYS_AT);
            barrier(CLK_LOCAL_MEM_FENCE);
            multiply_scores(stage, at.x, at.y, min(SIMT_DEPTH, p->head_dim - column), score);
            if (ENDS_COLUMN_RUN(column + SIMT_DEPTH, p->head_dim)) {
                end_column_run(away, column < COLUMN_RUN, column + SIMT_DEPTH >= p->head_dim, score, &runs_of_columns);
            }
        }
        finish_tile(p, &in, &at, from, scores, 0, score, &seen);
        take_logits(p, &in, &at, row >= first_summed, score, &totals);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    store_keys(p, &places, &at, from, &totals, stage, scores, key_sums, maxima);
}
