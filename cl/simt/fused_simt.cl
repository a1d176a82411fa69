/* fused_simt: attention for GPUs in one kernel and no L x L matrix, in plain OpenCL C 1.2: the softmax online (Milakov
 * and Gimelshein 2018), over tiles of keys, with weights * values accumulated as in FlashAttention (Dao et al. 2022;
 * Dao 2023).
 *
 *     group 0: block of TILE_ROWS query rows      1: slice of COLUMNS output columns      2: batch * head
 *
 * For each tile of TILE_KEYS keys that some row may see, with the layout of simt/tile.clh:
 *
 *     scores       += queries * keys          through stage, SIMT_DEPTH columns at a time
 *     logits        = scores, scaled, masked; the largest of the work-item's own keys goes to partial, for each row
 *     row_maximum   of all keys so far; accumulator and row_sum are rescaled to it
 *     weights       = exp(logits - row_maximum), to local memory, WEIGHT_KEYS at once
 *     accumulator  += weights * values        through stage, KEYS_STAGED values at a time
 *     total        += accumulator             after each run of keys (simt/total.clh)
 *
 * Each stage stands between two barriers: one after it was filled, one before it is filled again; while it is
 * multiplied, the next one is loaded to registers (simt/ahead.clh). A row's sum is kept in parts, one a run of a
 * work-item's keys, until the end. Every work-item passes every barrier: loop bounds depend on the group alone. */
#include "simt/ahead.clh"
#include "simt/total.clh"

/* Keys, or values, of the tile from this key on, where they are not loaded ahead. */
INLINE void stage_keys_from(const clattn_params *p, const attention_buffers *in, const kv_rows *keys,
                            const kv_scales *scales, int from, int high, int column, __local REAL *stage)
{
    const kv_rows staged = rows_from_key(*keys, from);
    const kv_scales staged_scales = scales_from_key(*scales, from);
    stage_keys(p, in, &staged, &staged_scales, high - 1 - from, column, stage);
}

INLINE int stage_values_from(const attention_buffers *in, const kv_rows *values, const kv_scales *scales, int from,
                             int high, int first_column, int columns, __local REAL *stage)
{
    const kv_rows staged = rows_from_key(*values, min(from, high - 1));
    const kv_scales staged_scales = scales_from_key(*scales, min(from, high - 1));
    return stage_values(in, &staged, &staged_scales, max(high - 1 - from, 0), first_column, columns, stage);
}

__kernel WORK_GROUP LEAST_SUB_GROUP void
fused_simt(ATTENTION_ARGUMENTS, int first_row, int first_head, int blocks)
{
    ATTENTION_INPUTS(p, in);
    __local REAL stage[STAGE] __attribute__((aligned(LOCAL_ALIGNMENT)));
    __local REAL weights_tile[SIMT_WEIGHTS(TILE_ROWS, TILE_KEYS)] __attribute__((aligned(LOCAL_ALIGNMENT)));
    __local REAL maxima[MAXIMA * ROW_PITCH] __attribute__((aligned(LOCAL_ALIGNMENT)));
    __local int value_not_finite;

    place at;
    at.rows = row_block_here(p, &in, first_row, first_head, blocks);
    at.x = ITEM_X((int)get_local_id(0));
    at.y = ITEM_Y((int)get_local_id(0));
    const int first_column = (int)get_group_id(1) * COLUMNS;
    const int columns = min(COLUMNS, p->head_dim_v - first_column);
    const clattn_i64 query_at = query_start(p, &at.rows);
    const kv_rows keys = keys_of(p, &in, &at.rows);
    const kv_rows values = values_of(p, &in, &at.rows, IS_CODES(VALUE_TYPE) ? 0 : first_column);
    const kv_scales scales_of_keys = key_scales_of(p, &in, &at.rows.s, at.rows.b, at.rows.kv_head);
    const kv_scales scales_of_values = value_scales_of(p, &in, &at.rows.s, at.rows.b, at.rows.kv_head);

    REAL row_maximum[ITEM_ROWS], part_sum[ITEM_ROWS][PARTS], accumulator[ITEM_ROWS][ITEM_COLUMNS];
    uint seen = 0;
    FOR_ROWS {
        row_maximum[r] = -INFINITY;
        FOR_PARTS part_sum[r][part] = 0;
        FOR_COLUMNS accumulator[r][c] = 0;
    }
    /* No early return: barriers behind one trouble some compilers. A block past the end of its sequence
     * has no keys, and no rows to write. */
    const int high = at.rows.first_row <= at.rows.last_row ? key_high(p, &at.rows.s, at.rows.last_row) : 0;
    int from = key_low(p, &at.rows.s, at.rows.first_row), next_from;
    next_stage next;
    find_stages(p, &in, query_at, at.rows.last_row - at.rows.first_row, &keys, &values, columns, &next);
    if (next.has_scores && from < high) {
        fetch_first_scores(p, &in, &keys, from, high, &next);
    }
    item_total total;
    column_runs runs_of_columns;
    const int away = not_known(p);
    int runs_ended = 0;
    if (RUNS) {
        begin_total(away, &total);
    }
    for (; from < high; from = next_from) {
        next_from = next_tile(p, &at.rows, from);
        const score_bits kept = HAS(DROPOUT) ? kept_keys(p, &at, from) : 0;
        REAL score[ITEM_ROWS][ITEM_KEYS];
        FOR_ROWS FOR_KEYS score[r][n] = 0;
        for (int column = 0; column < p->head_dim; column += SIMT_DEPTH) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (next.has_scores) {
                put_scores(&next, stage);
            } else {
                stage_queries(p, &in, query_at, at.rows.last_row - at.rows.first_row, column, stage);
                stage_keys_from(p, &in, &keys, &scales_of_keys, from, high, column, stage + KEYS_AT);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (next.has_scores && column + SIMT_DEPTH < p->head_dim) {
                fetch_scores(p, &in, column + SIMT_DEPTH, &next);
            }
            if (next.has_values && column + SIMT_DEPTH >= p->head_dim) {
                fetch_first_values(&in, &values, from, high, columns, &next);
            }
            multiply_scores(stage, at.x, at.y, min(SIMT_DEPTH, p->head_dim - column), score);
            if (ENDS_COLUMN_RUN(column + SIMT_DEPTH, p->head_dim)) {
                end_column_run(away, column < COLUMN_RUN, column + SIMT_DEPTH >= p->head_dim, score, &runs_of_columns);
            }
        }
        drop_scores(&next);
        finish_tile(p, &in, &at, from, weights_tile, kept, score, &seen);
        if (COMBINES_MAXIMA & ASKS_ANY(FINISHING)) { /* a constant */
            barrier(CLK_LOCAL_MEM_FENCE); /* scores of others waited there */
        }
        write_maxima(COMBINES_MAXIMA ? weights_tile : maxima, &at, score);
        if (get_local_id(0) == 0) {
            value_not_finite = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (COMBINES_MAXIMA) {
            combine_maxima(weights_tile, maxima);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        raise_maxima(maxima, &at, row_maximum, part_sum, accumulator);
        #pragma unroll
        for (int first = 0; first < ITEM_KEYS; first += ITEM_WEIGHT_KEYS) {
            const int first_key = first / ITEM_WEIGHT_KEYS * WEIGHT_KEYS;
            write_weights(p, weights_tile, &at, kept, row_maximum, first, score, part_sum);
            for (int key = 0; key < WEIGHT_KEYS; key += KEYS_STAGED) {
                if (next.has_values ? put_values(&next, stage)
                                    : stage_values_from(&in, &values, &scales_of_values, from + first_key + key, high,
                                                        first_column, columns, stage)) {
                    value_not_finite = 1;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                if (next.has_values && first_key + key + KEYS_STAGED < TILE_KEYS) {
                    fetch_values(&in, &values, from + first_key + key + KEYS_STAGED, high, columns, &next);
                }
                if (next.has_scores && first_key + key + KEYS_STAGED >= TILE_KEYS && next_from < high) {
                    fetch_first_scores(p, &in, &keys, next_from, high, &next);
                }
                const int not_finite = value_not_finite;
                if (not_finite) {
                    multiply_values_not_finite(stage, weights_tile + key * ROW_PITCH, at.x, at.y, accumulator);
                }
                if (!asked_again(not_finite)) {
                    multiply_values(stage, weights_tile + key * ROW_PITCH, at.x, at.y, accumulator);
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
        if (RUNS && next_from < high && next_from / RUN_KEYS != from / RUN_KEYS) {
            runs_ended = 1;
            end_run(away, row_maximum, part_sum, accumulator, &total);
        }
    }
    if (RUNS && runs_ended) {
        end_run(away, row_maximum, part_sum, accumulator, &total);
        take_total(away, &total, row_maximum, part_sum, accumulator);
    }

    REAL row_sum[ITEM_ROWS];
    if (KEPT) { FOR_ROWS FOR_PARTS part_sum[r][part] += (REAL)FLT_MIN; } /* logits of -infinity: 0, but not -0 */
    write_parts(weights_tile, &at, seen, part_sum);
    barrier(CLK_LOCAL_MEM_FENCE);
    seen = add_parts(weights_tile, &at, row_sum);
    FOR_ROWS {
        const int i = row_of(&at, r), sees = (seen >> r) & 1;
        REAL carry = 1, top = row_maximum[r];
        if (HAS(SINKS)) {
            const REAL sink = sink_of(p, &in, at.rows.h);
            top = fmax(sink, row_maximum[r]);
            carry = EXP(row_maximum[r] - top);
            row_sum[r] = row_sum[r] * carry + EXP(sink - top);
        }
        if (i > at.rows.last_row) {
            continue;
        }
        if (HAS(LSE) && at.x == 0 && first_column == 0) {
            in.lse[lse_at(p, &at.rows.s, at.rows.b, at.rows.h, i)] = lse_of(p, sees, top, row_sum[r]);
        }
        const clattn_i64 out_at =
            out_row_at(p, &at.rows.s, at.rows.b, at.rows.h, i) + first_column * COLUMN_STRIDE(out);
        row_sum[r] = KEPT && top == -INFINITY ? 0 : row_sum[r];
        /* All dropped: 0, whatever the sum, but for a NaN that came of a value. */
        const REAL factor = (seen >> (KEPT + r)) & 1 ? carry / row_sum[r] : 0;
        FOR_COLUMNS {
            const int column = OUTPUT_COLUMN(at.x, c);
            if (column < columns) {
                OUT_STORE(in.out, out_at + column * COLUMN_STRIDE(out), sees ? accumulator[r][c] * factor : 0);
            }
        }
    }
}
