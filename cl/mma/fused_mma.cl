/* fused_mma: attention on a matrix unit, in one kernel and with no L x L matrix: the softmax online (Milakov and
 * Gimelshein 2018), over tiles of keys, with weights * values accumulated as in FlashAttention (Dao et al. 2022; Dao
 * 2023).
 *
 *     group 0: block of TILE_ROWS query rows      1: slice of COLUMNS output columns      2: batch * head
 *
 * Each sub-group owns N_BLOCKS blocks of MATRIX_N queries, with the softmax of their rows and their outputs in
 * registers, and walks with the others over the keys, TILE_KEYS at a time, which all share:
 *
 *     scores[key][query]      = keys * queries       from local memory, queries from registers if they fit
 *     scores                  = logits, or their part that is not yet scaled; -inf where a row does not see the key
 *     base                    of each query: near the row maximum (raise_bases); where one rises, accumulator and
 *                             row_sum are rescaled
 *     weights                 = exp2(scores * factor - origin), in WEIGHT_PARTS of the type, and their sum
 *     accumulator[column][query] += values * weights
 *                             from local memory; all parts with each value
 *
 * Values are copied while scores are multiplied, the next keys while weights are made and used:
 *
 *     | keys are there | copy values, multiply scores | values are there | copy next keys, weights, multiply |
 *     barrier                                         barrier
 *
 * mma/unit.clh says which element of a matrix a lane holds. Lanes that share a query agree on its base; its sum is
 * kept in parts until the end. Every work-item passes every barrier: loop bounds depend on the group alone. */
#include "mma/finish.clh"
#include "mma/products.clh"
#include "mma/softmax.clh"
#include "mma/stage.clh"
#include "mma/total.clh"

/* Local memory, in elements. Scores wait where the keys were (finish_parked). Queries that stay in registers
 * pass through the tiles of keys and values, and outputs through all of it. */
#define PARKED (PARKS_SCORES ? MMA_PARKED(TILE_ROWS, TILE_KEYS, ELEMENT_BYTES) : 0)
#define KEYS_AREA MMA_LARGER(KEY_TILE, PARKED)
#define QUERIES_START MMA_QUERIES_START(KEYS_AREA, VALUE_TILE, QUERIES_IN_REGISTERS)
#define LOCAL_SIZE MMA_LOCAL_SIZE(KEYS_AREA, VALUE_TILE, QUERIES_IN_REGISTERS, QUERY_TILE, OUTPUT_TILE)

__kernel __attribute__((reqd_work_group_size(WORK_ITEMS, 1, 1))) SUB_GROUP void
fused_mma(ATTENTION_ARGUMENTS, int first_row, int first_head, int blocks)
{
    ATTENTION_INPUTS(p, in);
    __local element tiles[LOCAL_SIZE] __attribute__((aligned(16)));
    __local int not_finite; /* some output may have to be, because of a value */
    __local int first_not_finite, last_not_finite; /* keys */
#if EMULATED
    __local int scratch[SUB_GROUPS * SCRATCH];
#endif
    __local element *keys = tiles, *values = tiles + KEYS_AREA, *queries = tiles + QUERIES_START;
    const int sub_group = (int)get_local_id(0) / SUB_GROUP_ITEMS;

    place at;
    at.rows = row_block_here(p, &in, first_row, first_head, blocks);
    at.u.item = (int)get_local_id(0);
    at.u.lane = at.u.item % SUB_GROUP_ITEMS;
#if EMULATED
    at.u.scratch = scratch + sub_group * SCRATCH;
#endif
    at.first_row = at.rows.first_row + sub_group * GROUP_ROWS;
    const unit *u = &at.u;
    int first_column = (int)get_group_id(1) * COLUMNS;
    const clattn_i64 query_at = query_start(p, &at.rows);
    const kv_rows key_rows = keys_of(p, &in, &at.rows);
    kv_rows value_rows = values_of(p, &in, &at.rows, first_column);
    const matrix query_m = query_matrix(p, &in, query_at), key_m = kv_matrix(in.key, &key_rows, p->head_dim);
    const matrix value_m = kv_matrix(in.value, &value_rows, p->head_dim_v - first_column);
    /* A block past the end of its sequence has no keys, and no rows to write. */
    int row_count = max(at.rows.last_row + 1 - at.rows.first_row, 0);
    const int high = row_count > 0 ? key_high(p, &at.rows.s, at.rows.last_row) : 0;
    const int low = key_low(p, &at.rows.s, at.rows.first_row);
    const int there = at.rows.s.key_len; /* in tiles, so that more of them are whole; from `high` on they are hidden */
    int from = low;
    const float log2_of_score = score_in_log2(p);
    /* The softmax multiplies by it on its way, where it and its quarter are normal numbers. */
    const int folds = log2_of_score >= 0x1p-120f;
    const int in_pairs = lies_in_pairs(p, &in, &at.rows);

    uint query_words[QUERIES_IN_REGISTERS ? DEPTH_BLOCKS : 1][N_BLOCKS][B_WORDS];
    stage_queries(u->item, queries, &query_m, query_at, STRIDE(query, 2), row_count);
#if QUERIES_IN_REGISTERS
    copies_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (int d = 0; d < DEPTH_BLOCKS; ++d) {
        FOR_QUERIES load_queries(u, query_words[d][n], queries, sub_group * GROUP_ROWS + n * MATRIX_N, d * 16);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

    float base[QUERY_SLOTS], limit[QUERY_SLOTS], kept_base[QUERY_SLOTS], row_sum[QUERY_SLOTS];
    float accumulator[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS];
    uint seen = 0;
    if (u->item == 0) {
        not_finite = 0;
        first_not_finite = INT_MAX;
        last_not_finite = -1;
    }
    begin_rows(base, limit, kept_base, row_sum, accumulator);
    clear_tiles(u->item, tiles, KEYS_AREA + VALUE_TILE, key_m.columns < DEPTH || value_m.columns < COLUMNS);
    barrier(CLK_LOCAL_MEM_FENCE);
    stage_keys(u->item, keys, &key_m, &key_rows, from, there);
    item_total total;
    const int away = not_known(p);
    int runs_ended = 0;
    if (RUNS) {
        begin_total(away, &total);
    }
    while (from < high) {
        const int all_see = ADDS ? 0 : all_see_tile(p, &at.rows, from);
        const int next = next_tile(p, &at.rows, from);
        float score[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS];
        additions added;
        uint packed[WEIGHT_PARTS][KEY_BLOCKS][N_BLOCKS][PACKED], visible[BIT_WORDS], kept[BIT_WORDS];
        renew(&at.u);
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        stage_values(u->item, values, &value_m, &value_rows, from, there);
        if (ADDS & !PARKS_SCORES) {
            read_added(p, &in, &at, from, in_pairs, &added); /* on its way meanwhile */
        }
        multiply_scores(u, keys, queries, query_words, sub_group * GROUP_ROWS, score);
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        if (PARKS_SCORES) { /* a constant: no barrier stands in a branch */
            finish_parked(p, &in, &at, from, all_see, (__local float *)keys, score);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (next < high) {
            stage_keys(u->item, keys, &key_m, &key_rows, next, there);
        }
        if (!folds) {
            FOR_KEYS FOR_QUERIES FOR_ELEMENTS score[k][n][i] *= log2_of_score;
        }
        if (all_see) {
            seen |= ALL_SLOTS;
            change_scores(p, &in, &at, from, 0, &added, score, visible, &seen);
        } else {
            change_scores(p, &in, &at, from, 1, &added, score, visible, &seen);
            /* 0 * NaN must not reach a row that does not see it. */
            if (make_finite(u->item, values)) {
                not_finite = 1;
            }
            if (!EMULATED) {
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
        /* Emulated, it stands outside of the branch: inside, PoCL 6.0 ends the process ("Cannot add context restore for
         * a PHI node at the region entry"). Where it is not needed it orders global memory only, as meet() does. */
        if (EMULATED) {
            barrier(all_see ? CLK_GLOBAL_MEM_FENCE : CLK_LOCAL_MEM_FENCE);
        }
        if (ASKS(DROPOUT)) {
            find_kept(p, &at, from, all_see, visible, kept, &seen);
        }
        weigh_scores(u, folds ? log2_of_score : 1, kept, score, base, limit, kept_base, row_sum, accumulator, packed);
        multiply_values(u, values, packed, accumulator);
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
    settle_word((uint *)&first_column);
    row_count = max(at.rows.last_row + 1 - at.rows.first_row, 0);
    value_rows = values_of(p, &in, &at.rows, first_column);
    copies_wait();
    barrier(CLK_LOCAL_MEM_FENCE);
    float factor[QUERY_SLOTS];
    if (finish_rows(p, &in, &at, first_column == 0, seen, base, kept_base, row_sum, factor, accumulator)) {
        not_finite = 1;
    }
    put_rows(&at, at.rows.first_row, factor, accumulator, tiles);
    barrier(CLK_LOCAL_MEM_FENCE);
    /* The barrier stays outside: inside, PoCL 3.1 makes code that writes past the parameters. */
    if (not_finite) {
        find_not_finite(u->item, low, high, &value_m, &value_rows, &first_not_finite, &last_not_finite);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (not_finite) {
        put_not_finite(p, &in, &at, first_not_finite, last_not_finite + 1, &value_m, &value_rows,
                       at.rows.first_row, row_count, tiles);
    }
    write_outputs(u->item, tiles, (__global element *)in.out,
                  out_row_at(p, &at.rows.s, at.rows.b, at.rows.h, at.rows.first_row) +
                      first_column * COLUMN_STRIDE(out),
                  STRIDE(out, 2), COLUMN_STRIDE(out), row_count, min(COLUMNS, p->head_dim_v - first_column));
}
