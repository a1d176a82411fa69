/* fused_wgmma: fused_mma's attention by the products of warpgroups (NVIDIA, from sm_90 on; wgmma/unit.clh), with keys
 * and values in a ring (wgmma/ring.clh).
 *
 *     group 0: block of TILE_ROWS = 64 * WARPGROUPS query rows      1: 0      2: batch * head
 *
 * A warpgroup owns 64 rows, a warp 16 of them, with queries, softmax and outputs in registers as fused_mma has them on
 * NVIDIA_80: masks, logits, softmax, sums and the end are its headers. Warpgroups share the ring and nothing else, and
 * walk over the keys each at its own pace:
 *
 *     wait for keys     scores = queries * keys         give the place back     logits, weights (mma/softmax.clh)
 *     wait for values   outputs += weights * values     give the place back
 *
 * Emulated (EMULATED=1) all work-items pass the same barriers: branches around products depend on the group alone. */
#define TILES_SWIZZLED 1
/* Addresses of all copies would take registers of the products, which then wait for each other. */
#define UNROLL_SWIZZLED _Pragma("unroll 1")
#define STAGED_ROWS 64 /* queries, and outputs, pass through local memory in turns */
#ifndef TILE_ROWS
#define TILE_ROWS 64
#define TILE_KEYS 32
#define WORK_ITEMS 128
#define DEPTH 64
#define COLUMNS 64
#define PLACES 3
#endif
#include "wgmma/unit.clh"
#include "mma/finish.clh"
#include "mma/total.clh"
#include "wgmma/ring.clh"

#if N_BLOCKS != 1 || SLOTS != 2
#error "a warp has sixteen rows, in NVIDIA's registers"
#endif

/* Local memory, in elements: the ring, then parked scores. */
#define PARKED (PARKS_SCORES ? MMA_PARKED(TILE_ROWS, TILE_KEYS, ELEMENT_BYTES) : 0)
#define LOCAL_SIZE WGMMA_RING(PLACES, PLACE, PARKED, DEPTH, COLUMNS)

/* Each warpgroup's queries, in its turn. */
INLINE void load_all_queries(const unit *u, __local element *tiles, const matrix *query, clattn_i64 query_at,
                             clattn_i64 row_stride, int row_count, uint words[DEPTH_BLOCKS][N_BLOCKS][B_WORDS])
{
    UNROLL
    for (int turn = 0; turn < WARPGROUPS; ++turn) {
        const int first = turn * WARPGROUP_ROWS, is_own = turn == u->item / WARPGROUP_ITEMS;
        stage_queries(u->item, tiles, query, query_at + first * row_stride, row_stride, row_count - first);
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL
        for (int d = 0; d < DEPTH_BLOCKS; ++d) {
            uint loaded[B_WORDS];
            load_queries(u, loaded, tiles, u->item / SUB_GROUP_ITEMS % 4 * MATRIX_N, d * 16);
            UNROLL
            for (int w = 0; w < B_WORDS; ++w) {
                words[d][0][w] = is_own || turn == 0 ? loaded[w] : words[d][0][w];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    UNROLL
    for (int d = 0; d < DEPTH_BLOCKS; ++d) {
        UNROLL
        for (int w = 0; w < B_WORDS; ++w) {
            settle_word(&words[d][0][w]);
        }
    }
}

INLINE void begin_scores(const unit *u, product_tile keys, uint query[DEPTH_BLOCKS][N_BLOCKS][B_WORDS],
                         float score[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS])
{
    score_products_begin();
    UNROLL
    for (int d = 0; d < DEPTH_BLOCKS; ++d) {
        product_of_keys(u, score[0][0], query[d][0], keys, DEPTHS_FURTHER(d), d > 0);
    }
    products_commit();
}

INLINE void sum_values(const unit *u, product_tile values,
                       uint packed[WEIGHT_PARTS][KEY_BLOCKS][N_BLOCKS][PACKED],
                       float accumulator[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS])
{
    value_products_begin(accumulator[0][0], packed[0][0][0]);
    FOR_KEYS FOR_PARTS product_of_values(u, accumulator[0][0], packed[part][k][0], values, KEYS_FURTHER(k));
    products_commit();
    value_products_wait(accumulator[0][0], packed[0][0][0]);
}

/* Whether keys may be hidden by more than the end that a row has by causal masks and lengths. */
#define HIDES_BY_MORE (HAS(WINDOW) || HAS(BLOCK_MASK) || HAS(ROW_RANGES) || LISTED || PAGED)

/* Whether all rows of a warpgroup, the first of which is `first`, see all keys of the tile by their place. */
INLINE int all_in_span(const clattn_params *p, const row_block *rows, int first, int from)
{
    const int last = min(first + WARPGROUP_ROWS - 1, rows->last_row);
    const int see = HIDES_BY_MORE ? all_rows_see(p, &rows->s, first, last, from, TILE_KEYS)
                                  : from + TILE_KEYS <= last_key_bound(p, &rows->s, first);
    return first <= last && see;
}

/* Whether a warpgroup's rows see all keys of the tile, by their place and by mask and bias: in most tiles these hide
 * none either, and to know it is cheaper than what follows where they do. */
INLINE int all_see(const unit *u, int in_span, const additions *added)
{
    if (ADDS) {
        return !PARKS_SCORES && !warpgroup_some(u, !in_span | may_hide_by_addition(added));
    }
    return in_span;
}

/* Logits of a tile in which some row may not see some key. 0 * NaN must not reach a row that does not see it, so values
 * are made finite; whether some were not. */
INLINE int hide_some(const clattn_params *p, const attention_buffers *in, const place *at, int from, additions *added,
                     __local element *values, float score[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS],
                     uint visible[BIT_WORDS], uint *seen)
{
    FOR_KEYS FOR_QUERIES {
        UNROLL
        for (int i = 0; ADDS && !PARKS_SCORES && i < C_ELEMENTS; i += 2) {
            settle_additions(added, k, n, i);
        }
    }
    change_scores(p, in, at, from, 1, added, score, visible, seen);
    const int some_not_finite = make_finite(at->u.item, values);
#if !EMULATED
    show_to_products();
    warpgroup_meet(&at->u);
#endif
    return some_not_finite;
}

__kernel __attribute__((reqd_work_group_size(WORK_ITEMS, 1, 1))) SUB_GROUP void
fused_wgmma(ATTENTION_ARGUMENTS, int first_row, int first_head, int blocks)
{
    ATTENTION_INPUTS(p, in);
    LOCAL_ELEMENTS(tiles, LOCAL_SIZE);
    __local place_counts counts[PLACES];
    __local int not_finite; /* some output may have to be, because of a value */
    __local int first_not_finite, last_not_finite; /* keys */
#if EMULATED
    __local int scratch[SUB_GROUPS * SCRATCH];
#endif
    const int sub_group = (int)get_local_id(0) / SUB_GROUP_ITEMS;
    const int warpgroup = (int)get_local_id(0) / WARPGROUP_ITEMS;

    place at;
    at.rows = row_block_here(p, &in, first_row, first_head, blocks);
    at.u.item = (int)get_local_id(0);
    at.u.lane = at.u.item % SUB_GROUP_ITEMS;
#if EMULATED
    at.u.scratch = scratch + sub_group * SCRATCH;
#endif
    at.first_row = at.rows.first_row + sub_group * GROUP_ROWS;
    const unit *u = &at.u;
    const clattn_i64 query_at = query_start(p, &at.rows);
    const matrix query_m = query_matrix(p, &in, query_at);
    /* A block past the end of its sequence has no keys, and no rows to write. */
    int row_count = max(at.rows.last_row + 1 - at.rows.first_row, 0);
    const int low = key_low(p, &at.rows.s, at.rows.first_row);
    const int high = row_count > 0 ? key_high(p, &at.rows.s, at.rows.last_row) : 0;
    /* The softmax multiplies by it on its way, where it and its quarter are normal numbers. */
    const int folds = score_in_log2(p) >= 0x1p-120f;
    float log2_of_score = folds ? score_in_log2(p) : 1;
    settle(&log2_of_score); /* else made anew for each tile, as these would be */
    float unfolded = score_in_log2(p);
    settle(&unfolded);
    int in_pairs = lies_in_pairs(p, &in, &at.rows);
    settle_word((uint *)&in_pairs);
    int own_first = at.rows.first_row + warpgroup * WARPGROUP_ROWS; /* of the rows of the warpgroup */
    settle_word((uint *)&own_first);

    uint query_words[DEPTH_BLOCKS][N_BLOCKS][B_WORDS];
    load_all_queries(u, tiles, &query_m, query_at, STRIDE(query, 2), row_count, query_words);

    float base[QUERY_SLOTS], limit[QUERY_SLOTS], kept_base[QUERY_SLOTS], row_sum[QUERY_SLOTS];
    float accumulator[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS];
    uint seen = 0;
    if (u->item == 0) {
        not_finite = 0;
        first_not_finite = INT_MAX;
        last_not_finite = -1;
    }
    begin_rows(base, limit, kept_base, row_sum, accumulator);
    item_total total;
    const int away = not_known(p);
    int runs_ended = 0;
    if (RUNS) {
        begin_total(away, &total);
    }
    ring r = { tiles, counts, 0, 0, low, high };
    ring_begin(p, &in, &at.rows, u, &r);
    for (int from = low; from < high;) {
        const int next = tile_after(p, &at.rows, from), in_span = all_in_span(p, &at.rows, own_first, from);
        float score[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS];
        additions added;
        uint packed[WEIGHT_PARTS][KEY_BLOCKS][N_BLOCKS][PACKED], visible[BIT_WORDS], kept[BIT_WORDS];
        const place_of_ring keys = ring_take(&r), values = ring_take(&r);
        renew(&at.u);
        ring_wait(&r, &keys);
        begin_scores(u, ring_products(&r, &keys), query_words, score);
        if (ADDS & !PARKS_SCORES) {
            read_added(p, &in, &at, from, in_pairs, &added); /* on its way meanwhile */
        }
        score_products_wait(score[0][0]);
        ring_give_back(p, &in, &at.rows, u, &r, &keys, 0);
        const int sees_all = all_see(u, in_span, &added);
        if (PARKS_SCORES) { /* each work-item its own */
            finish_parked(p, &in, &at, from, sees_all, (__local float *)(tiles + PLACES * PLACE), score);
        }
        if (!folds) {
            FOR_KEYS FOR_QUERIES FOR_ELEMENTS score[k][n][i] *= unfolded;
        }
        ring_wait(&r, &values);
        if (sees_all) {
            seen |= ALL_SLOTS;
            change_scores(p, &in, &at, from, 0, &added, score, visible, &seen);
        } else if (hide_some(p, &in, &at, from, &added, ring_tile(&r, &values), score, visible, &seen)) {
            not_finite = 1;
        }
        if (EMULATED) {
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (ASKS(DROPOUT)) {
            find_kept(p, &at, from, sees_all, visible, kept, &seen);
        }
        weigh_scores(u, log2_of_score, kept, score, base, limit, kept_base, row_sum, accumulator, packed);
        sum_values(u, ring_products(&r, &values), packed, accumulator);
        ring_give_back(p, &in, &at.rows, u, &r, &values, 1);
        if (RUNS && next < high && next / RUN_KEYS != from / RUN_KEYS) {
            runs_ended = 1;
            end_run(away, base, kept_base, row_sum, accumulator, &total);
        }
        from = next;
    }
    if (RUNS && runs_ended) {
        end_run(away, base, kept_base, row_sum, accumulator, &total);
        take_total(away, &total, base, kept_base, row_sum, accumulator);
    }
    renew_rows(p, &at.rows);
    row_count = max(at.rows.last_row + 1 - at.rows.first_row, 0);
    const kv_rows value_rows = values_of(p, &in, &at.rows, 0);
    const matrix value_m = kv_matrix(in.value, &value_rows, p->head_dim_v);
    float factor[QUERY_SLOTS];
    if (finish_rows(p, &in, &at, 1, seen, base, kept_base, row_sum, factor, accumulator)) {
        not_finite = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (not_finite) {
        find_not_finite(u->item, low, high, &value_m, &value_rows, &first_not_finite, &last_not_finite);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll 1
    for (int turn = 0; turn < WARPGROUPS; ++turn) {
        const int first = at.rows.first_row + turn * WARPGROUP_ROWS;
        const int count = min(row_count - turn * WARPGROUP_ROWS, WARPGROUP_ROWS);
        if (turn == u->item / WARPGROUP_ITEMS) {
            put_rows(&at, first, factor, accumulator, tiles);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (not_finite) {
            put_not_finite(p, &in, &at, first_not_finite, last_not_finite + 1, &value_m, &value_rows, first, count,
                           tiles);
        }
        write_outputs(u->item, tiles, (__global element *)in.out,
                      out_row_at(p, &at.rows.s, at.rows.b, at.rows.h, first), STRIDE(out, 2), COLUMN_STRIDE(out),
                      count, p->head_dim_v);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
