/* fused_simt: attention for GPUs in one kernel and no L x L matrix, in plain OpenCL C 1.2: the softmax online (Milakov
 * and Gimelshein 2018), over tiles of keys, with weights * values accumulated as in FlashAttention (Dao et al. 2022;
 * Dao 2023).
 *
 *     group 0: block of TILE_ROWS query rows      1: slice of COLUMNS output columns      2: batch * head
 *
 * For each tile of TILE_KEYS keys that some row may see, with the layout of simt_tile.clh:
 *
 *     scores       += queries * keys          through stage, SIMT_DEPTH columns at a time
 *     logits        = scores, scaled, masked; the largest of the work-item's own keys goes to partial, for each row
 *     row_maximum   of all keys so far; accumulator and row_sum are rescaled to it
 *     weights       = exp(logits - row_maximum), to local memory, WEIGHT_KEYS at once
 *     accumulator  += weights * values        through stage, KEYS_STAGED values at a time
 *
 * Each stage stands between two barriers: one after it was filled, one before it is filled again; while it is
 * multiplied, the next one is loaded to registers (simt_ahead.clh). A row's sum is kept in parts, one a run of a
 * work-item's keys, until the end. Every work-item passes every barrier: loop bounds depend on the group alone. */
#include "simt_products.clh"
#include "simt_ahead.clh"
#include "philox.clh"

/* HAS, not ASKS, though both are known here: with ASKS Intel's compiler spills registers on some GPUs. */
#define CHANGES_SCORES HAS_ANY(FINISHING)

/* Of a work-item's `seen`: bit r for a row that may see a key; bit KEPT + r for one that a weight was kept of. */
#define KEPT (ASKS(DROPOUT) ? 16 : 0)
#define ALL_ROWS 0xffffu

/* Of a row's sum, a work-item has one for each run of keys: so sums do not depend on how many keys it has. */
#define PARTS (ITEM_KEYS / KEY_RUN)
#define FOR_PARTS _Pragma("unroll") for (int part = 0; part < PARTS; ++part)
#if ITEM_ROWS > 16 || ITEM_ROWS * ITEM_KEYS > 64 || ITEM_WEIGHT_KEYS % KEY_RUN != 0
#error "a work-item has at most 16 rows, and a bit for each of its scores"
#endif

/* Where a work-group and its work-item stand. */
typedef struct place {
    row_block rows;
    int x, y;
} place;

static inline int row_of(const place *at, int r)
{
    return at->rows.first_row + at->y * ITEM_ROWS + r;
}

/* Bit r * ITEM_KEYS + n: row r may see key n. Loops over rows are not unrolled here and below: the addresses
 * and positions of all rows at once would fill the registers. Rows past the last see nothing. */
static inline score_bits visible_keys(const clattn_params *p, const attention_buffers *in, const place *at, int from)
{
    const int rows = min(ITEM_ROWS, at->rows.last_row + 1 - row_of(at, 0));
    score_bits visible = 0;
    #pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        FOR_KEYS visible |= (score_bits)key_allowed(p, in, &at->rows.s, at->rows.b, at->rows.h, row_of(at, row),
                                                    from + ITEM_KEY(at->x, n))
                            << (row * ITEM_KEYS + n);
    }
    return visible;
}

/* In the same order: the weight is kept by dropout. */
static inline score_bits kept_keys(const clattn_params *p, const place *at, int from)
{
    score_bits kept = 0;
    #pragma unroll 1
    for (int row = 0; row < ITEM_ROWS; ++row) {
        #pragma unroll 1
        for (int n = 0; n < ITEM_KEYS; ++n) {
            kept |= (score_bits)dropout_keeps(p, at->rows.b, at->rows.h, row_of(at, row), from + ITEM_KEY(at->x, n))
                    << (row * ITEM_KEYS + n);
        }
    }
    return kept;
}

/* Softcap, what bias and slopes add, and what is hidden. The scores wait in the work-item's own part of the weights
 * tile, where an index known only at run time does no harm. */
INLINE void change_scores(const clattn_params *p, const attention_buffers *in, const place *at, int from,
                          __local REAL *weights, score_bits kept, REAL score[ITEM_ROWS][ITEM_KEYS], uint *seen)
{
    const int rows = min(ITEM_ROWS, at->rows.last_row + 1 - row_of(at, 0));
    __local REAL *own = weights + at->y * ITEM_ROWS;
    #pragma unroll
    for (int first = 0; first < ITEM_KEYS; first += ITEM_WEIGHT_KEYS) {
        FOR_WEIGHT_KEYS FOR_ROWS own[ITEM_KEY(at->x, n) * ROW_PITCH + r] = score[r][first + n];
        #pragma unroll 1
        for (int row = 0; row < rows; ++row) {
            FOR_WEIGHT_KEYS {
                __local REAL *score_at = own + ITEM_KEY(at->x, n) * ROW_PITCH + row;
                REAL logit = *score_at;
                const int allowed = finish_logit(p, in, &at->rows.s, at->rows.slope, at->rows.b, at->rows.h,
                                                 row_of(at, row), from + ITEM_KEY(at->x, first + n), &logit);
                *score_at = allowed ? logit : HIDDEN_LOGIT;
                *seen |= (uint)allowed << row;
                if (HAS(DROPOUT)) {
                    *seen |= ((uint)allowed & BIT(kept, row, first + n)) << (KEPT + row);
                }
            }
        }
        FOR_WEIGHT_KEYS FOR_ROWS score[r][first + n] = own[ITEM_KEY(at->x, n) * ROW_PITCH + r];
    }
}

/* The rows that keep a weight. */
static inline void note_kept(score_bits kept, uint *seen)
{
    FOR_ROWS *seen |= (uint)((kept >> r * ITEM_KEYS & ((1u << ITEM_KEYS) - 1)) != 0) << (KEPT + r);
}

/* Dot products become logits, hidden ones marked; `seen` gets the rows that may see a key, and keep a weight. */
INLINE void finish_tile(const clattn_params *p, const attention_buffers *in, const place *at, int from,
                        __local REAL *weights, score_bits kept, REAL score[ITEM_ROWS][ITEM_KEYS], uint *seen)
{
    FOR_ROWS FOR_KEYS score[r][n] *= PARAM_REAL(p, scale);
    if (CHANGES_SCORES) {
        change_scores(p, in, at, from, weights, kept, score, seen);
    } else if (HAS_ANY(HIDING_PAIRS) || !all_see_tile(p, &at->rows, from)) {
        const score_bits visible = visible_keys(p, in, at, from);
        FOR_ROWS FOR_KEYS {
            score[r][n] = BIT(visible, r, n) ? score[r][n] : HIDDEN_LOGIT;
            *seen |= BIT(visible, r, n) << r;
        }
        *seen = computed_here(*seen);
        if (HAS(DROPOUT)) {
            note_kept(visible & kept, seen);
        }
    } else {
        *seen |= ALL_ROWS;
        if (HAS(DROPOUT)) {
            note_kept(kept, seen);
        }
    }
}

/* Maxima as work-items exchange them: with bits in an order that integers have too, and back. Of numbers that were
 * loaded fmax first makes sure that they signal nothing, which are two more instructions on AMD's GPUs. Intel's
 * compiler has no registers left for it. */
#ifdef SUB_GROUP_SIZE
#define IN_ORDER(x) (x)
#define LARGER(a, b) fmax(a, b)
#else
#define IN_ORDER(x) AS_REAL(AS_BITS(x) ^ (AS_BITS(x) >> (8 * sizeof(REAL) - 1) & ~SIGN_BIT))
#define LARGER(a, b) AS_REAL(max(AS_BITS(a), AS_BITS(b)))
#endif

/* The maximum over the work-item's keys. fmax passes over NaN: over hidden keys, and over a NaN that is
 * attended, whose weight becomes NaN and with it the row's sum. */
INLINE void write_maxima(__local REAL *own_maxima, const place *at, REAL score[ITEM_ROWS][ITEM_KEYS])
{
    REAL top[ITEM_ROWS];
    FOR_ROWS {
        top[r] = -INFINITY;
        FOR_KEYS top[r] = fmax(top[r], score[r][n]);
        top[r] = IN_ORDER(top[r]);
    }
    write_run(own_maxima + at->x * ROW_PITCH + at->y * ITEM_ROWS, top, ITEM_ROWS);
}

/* Of each row, ITEMS_X become MAXIMA. */
INLINE void combine_maxima(__local const REAL *own_maxima, __local REAL *maxima)
{
    const int row = (int)get_local_id(0) % TILE_ROWS, part = (int)get_local_id(0) / TILE_ROWS;
    __local const REAL *from = own_maxima + part * (ITEMS_X / MAXIMA) * ROW_PITCH + row;
    REAL top = from[0];
    #pragma unroll
    for (int x = 1; x < ITEMS_X / MAXIMA; ++x) {
        top = LARGER(top, from[x * ROW_PITCH]);
    }
    maxima[part * ROW_PITCH + row] = top;
}

/* New maxima of the rows; what was summed below the old ones is scaled to them. */
INLINE void raise_maxima(__local const REAL *maxima, const place *at, REAL row_maximum[ITEM_ROWS],
                         REAL row_sum[ITEM_ROWS][PARTS], REAL accumulator[ITEM_ROWS][ITEM_COLUMNS])
{
    REAL old[ITEM_ROWS];
    FOR_ROWS {
        old[r] = row_maximum[r];
        row_maximum[r] = IN_ORDER(row_maximum[r]);
    }
    UNROLL_PARTS
    for (int x = 0; x < MAXIMA; ++x) {
        REAL top[ITEM_ROWS];
        read_run(top, maxima + x * ROW_PITCH + at->y * ITEM_ROWS, ITEM_ROWS);
        FOR_ROWS row_maximum[r] = LARGER(row_maximum[r], top[r]);
    }
    FOR_ROWS {
        row_maximum[r] = IN_ORDER(row_maximum[r]);
        /* inf - inf is no number, and 0 * NaN would reach a row whose weights are all dropped. */
        const REAL rescale = row_maximum[r] == old[r] ? 1 : EXP(old[r] - row_maximum[r]);
        FOR_PARTS row_sum[r][part] *= rescale;
        FOR_COLUMNS accumulator[r][c] *= rescale;
    }
}

/* Logits become weights, in local memory, and their sums: of the work-item's keys from `first` on. */
INLINE void write_weights(const clattn_params *p, __local REAL *weights, const place *at,
                          score_bits kept, const REAL row_maximum[ITEM_ROWS], int first,
                          REAL score[ITEM_ROWS][ITEM_KEYS], REAL row_sum[ITEM_ROWS][PARTS])
{
    FOR_WEIGHT_KEYS {
        REAL weight[ITEM_ROWS];
        FOR_ROWS {
            const int hidden = IS_HIDDEN_LOGIT(score[r][first + n]);
            const REAL value = EXP(score[r][first + n] - (row_maximum[r] == -INFINITY ? 0 : row_maximum[r]));
            weight[r] = hidden ? HIDDEN_WEIGHT : value;
            row_sum[r][(first + n) / KEY_RUN] += weight[r];
            if (HAS(DROPOUT) && !hidden) {
                weight[r] = BIT(kept, r, first + n) ? value * PARAM_REAL(p, keep_scale) : 0;
            }
        }
        write_run(weights + ITEM_KEY(at->x, n) * ROW_PITCH + at->y * ITEM_ROWS, weight, ITEM_ROWS);
    }
}

/* A row's sum is in parts, each with a sign: negative where no weight of its work-item was kept, as of one that saw no
 * key, which is -0. */
INLINE void write_parts(__local REAL *parts, const place *at, uint seen, REAL row_sum[ITEM_ROWS][PARTS])
{
    FOR_PARTS {
        REAL sum[ITEM_ROWS];
        FOR_ROWS {
            const REAL seen_sum = (seen >> r) & 1 ? row_sum[r][part] : 0;
            sum[r] = copysign(seen_sum, (seen >> (KEPT + r)) & 1 ? (REAL)1 : (REAL)-1);
        }
        write_run(parts + (part * ITEMS_X + at->x) * ROW_PITCH + at->y * ITEM_ROWS, sum, ITEM_ROWS);
    }
}

/* The sums of whole rows; returns their bits of `seen`. */
INLINE uint add_parts(__local const REAL *parts, const place *at, REAL row_sum[ITEM_ROWS])
{
    uint seen = 0;
    FOR_ROWS row_sum[r] = 0;
    #pragma unroll 1
    for (int x = 0; x < PARTS * ITEMS_X; ++x) {
        REAL part[ITEM_ROWS];
        read_run(part, parts + x * ROW_PITCH + at->y * ITEM_ROWS, ITEM_ROWS);
        FOR_ROWS {
            row_sum[r] += fabs(part[r]);
            seen |= (uint)!IS_HIDDEN_WEIGHT(part[r]) << r | (uint)!signbit(part[r]) << (KEPT + r);
        }
    }
    return seen;
}

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
            in.lse[lse_at(p, &at.rows.s, at.rows.b, at.rows.h, i)] = lse_of(sees, top, row_sum[r]);
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
