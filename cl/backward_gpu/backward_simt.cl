/* The gradients of queries, keys and values without the matrix of scores, for GPUs, in plain OpenCL C 1.2: the products
 * of FlashAttention's backward pass (Dao et al. 2022; Dao 2023), made twice, so that who adds a gradient up owns it: no
 * atomics, no sums of others, nothing in memory but the terms of rows. Two kernels; a program has one of them:
 *
 *                  OWNS_KEYS 1: key_gradients                   OWNS_KEYS 0: row_gradients
 *     group 0      tile of keys                                 block of rows
 *     group 1      slice of COLUMNS columns                     the same
 *     group 2      key/value head of a batch entry              query head of a batch entry
 *     walks over   blocks of rows of all heads of its group     tiles of keys
 *     each time    S = query . key, P = exp(S - lse - rest)     S, P
 *                  dvalue += P^T dout                           dP = dout . value, dZ = P (dP - D)
 *                  dP, dZ                                       dquery += dZ key
 *                  dkey += dZ^T query
 *
 * A third one, row_rests, which comes first, makes the terms of rows (backward/row.clh); it walks as row_gradients does
 * where float32 does not hold them (backward/lse_rest.clh).
 *
 * What is owned lies in registers, where fused_simt has its output; backward_gpu/simt_tile.clh says where the pairs
 * are. Sums go over rows, or keys, in order, run by run (owner_total.clh): no bit hangs on another sum or batch. */
#ifndef OWNS_KEYS
#define OWNS_KEYS 1
#endif
#include "backward_gpu/simt_tile.clh"
#include "backward_gpu/owner.clh"
#include "backward/lse_rest.clh"
#define OWNED_SUMS (ITEM_ROWS * ITEM_COLUMNS)
#include "backward_gpu/owner_total.clh"

#if REDO_ROWS % TILE_ROWS != 0
#error "a tile is not of two of those that backward_mma.cl leaves"
#endif

/* A work-group's memory. Each stage stands between two barriers: one after it was filled, one before the next time. No
 * barrier stands behind an `if`, nor in a loop that may not be entered, but for the outermost: some compilers write all
 * that follows out once more for each. So what is not wanted is gone through once, on zeros. */
typedef struct memory {
    __local REAL *stage, *pairs;
    __local int *not_finite;
} memory;

/* dot(query, key), or dot(dout, value), of the tile's pairs, through stage. away: not_known. */
#define DEFINE_PAIRS(name, owned, walked)                                                              \
    INLINE void name(const pair_tile *at, const memory *room, __global const ELEMENT_##owned *own_tensor,    \
                     const tensor_rows *own, __global const ELEMENT_##walked *other_tensor,            \
                     const tensor_rows *other, int columns, int away, REAL dot[ITEM_ROWS][ITEM_KEYS])  \
    {                                                                                                  \
        column_runs runs;                                                                              \
        FOR_ROWS FOR_KEYS dot[r][n] = 0;                                                               \
        int column = 0;                                                                                \
        do {                                                                                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                                              \
            stage_##owned(own_tensor, own, columns, column, room->stage);                              \
            stage_##walked(other_tensor, other, columns, column, room->stage + KEYS_AT);               \
            if (get_local_id(0) == 0) {                                                                \
                *room->not_finite = 0;                                                                 \
            }                                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                              \
            multiply_scores(room->stage, at->x, at->y, min(SIMT_DEPTH, columns - column), dot);        \
            if (ENDS_COLUMN_RUN(column + SIMT_DEPTH, columns)) {                                       \
                end_column_run(away, column < COLUMN_RUN, column + SIMT_DEPTH >= columns, dot, &runs); \
            }                                                                                          \
            column += SIMT_DEPTH;                                                                      \
        } while (column < columns);                                                                    \
    }
/* Names of tensors as stage_... has them. */
#define ELEMENT_query ELEMENT_QUERY
#define ELEMENT_key ELEMENT_KEY
#define ELEMENT_value ELEMENT_VALUE
#define ELEMENT_dout ELEMENT_OUT
#if OWNS_KEYS
DEFINE_PAIRS(multiply_query_key, key, query)
DEFINE_PAIRS(multiply_dout_value, value, dout)
#else
DEFINE_PAIRS(multiply_query_key, query, key)
DEFINE_PAIRS(multiply_dout_value, dout, value)
#endif

/* sum += pairs * rows of what the work-group walks over. */
#define DEFINE_SUM(name)                                                                               \
    INLINE void add_##name(const pair_tile *at, const memory *room, __global const ELEMENT_##name *tensor,   \
                           const tensor_rows *rows, int first_column, int columns,                     \
                           REAL sum[ITEM_ROWS][ITEM_COLUMNS])                                          \
    {                                                                                                  \
        const int count = columns > 0 ? min(rows->last + 1, TILE_KEYS) : 0;                            \
        int first = 0;                                                                                 \
        do {                                                                                           \
            __local const REAL *pairs = room->pairs + first * ROW_PITCH;                               \
            barrier(CLK_LOCAL_MEM_FENCE);                                                              \
            if (spread_##name(tensor, rows, first, first_column, columns, room->stage)) {              \
                *room->not_finite = 1;                                                                 \
            }                                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                              \
            if (*room->not_finite) {                                                                   \
                multiply_values_not_finite(room->stage, pairs, at->x, at->y, sum);                     \
            } else {                                                                                   \
                multiply_values(room->stage, pairs, at->x, at->y, sum);                                \
            }                                                                                          \
            first += KEYS_STAGED;                                                                      \
        } while (first < count);                                                                       \
    }
#if OWNS_KEYS
DEFINE_SUM(query)
DEFINE_SUM(dout)
#else
DEFINE_SUM(key)
#endif

/* A row of the sum, times `factor`, to the gradient from element `at` on. */
#define STORE_ROW(place, gradient, at, columns, sum, factor)                                           \
    FOR_COLUMNS {                                                                                      \
        const int column = OUTPUT_COLUMN(stand.x, c);                                                  \
        if (column < (columns)) {                                                                      \
            store_gradient(place, gradient, (at) + column * (place)->stride[3], (sum)[c] * (factor));  \
        }                                                                                              \
    }

/* Which of the wanted gradients of the tile are to be done: all, or those that backward_mma.cl left. */
static inline int wants_here(const clattn_owner_part *part, __global const REAL *workspace, int plane, int first_row)
{
    if (part->redo_blocks == 0) {
        return part->wants;
    }
    __global const REAL *redo = workspace + REDO_AT(part, plane, first_row);
    const int first = part->wants & OWNER_WANTS_FIRST && redo[0] != 0;
    const int dvalue = part->wants & OWNER_WANTS_DVALUE && redo[1] != 0;
    return (first ? OWNER_WANTS_FIRST : 0) | (dvalue ? OWNER_WANTS_DVALUE : 0);
}

#define ROOM                                                                                           \
    __local REAL stage[STAGE] __attribute__((aligned(LOCAL_ALIGNMENT)));                               \
    __local REAL pairs[SIMT_WEIGHTS(TILE_ROWS, TILE_KEYS)] __attribute__((aligned(LOCAL_ALIGNMENT)));  \
    __local int not_finite;                                                                            \
    const memory room = { stage, pairs, &not_finite };                                                   \
    const int first_column = (int)get_group_id(1) * COLUMNS;                                           \
    pair_tile stand;                                                                                       \
    stand.x = ITEM_X((int)get_local_id(0));                                                            \
    stand.y = ITEM_Y((int)get_local_id(0))

#if OWNS_KEYS

static inline row_block row_block_of(const clattn_params *p, const attention_buffers *in, const sequence *s, int b,
                                     int h, int kv_head, int first_row)
{
    row_block at;
    at.s = *s;
    at.b = b;
    at.h = h;
    at.kv_head = kv_head;
    at.first_row = first_row;
    at.last_row = min(first_row + TILE_ROWS, s->query_len) - 1;
    at.terms = score_terms_of(p, in, b, h);
    narrow_to_rows(p, in, &at.s, b, h, 1, at.first_row, at.last_row);
    return at;
}

/* Whether there is a block of rows that meets the tile, from the one of head `h` that begins at `row` on: `at` is there
 * then. */
static inline int next_met(const clattn_params *p, const attention_buffers *in, const sequence *s, int b, int h,
                           int kv_head, int row, pair_tile *at)
{
    const int end = (kv_head + 1) * (p->query_heads / p->kv_heads);
    for (; h < end; ++h) {
        for (; row < s->query_len; row += TILE_ROWS) {
            at->rows = row_block_of(p, in, s, b, h, kv_head, row);
            if (rows_meet_keys(p, &at->rows.s, row, at->rows.last_row, at->from, TILE_KEYS)) {
                return 1;
            }
        }
        row = 0;
    }
    return 0;
}

__kernel WORK_GROUP LEAST_SUB_GROUP void
key_gradients(OWNER_ARGUMENTS)
{
    BACKWARD_INPUTS(p, in);
    OWN_OUTPUT(p);
    DVALUE_OUTPUT(p, part);
    ROOM;
    const int group = p->query_heads / p->kv_heads;
    const int plane = part.first_plane + (int)get_group_id(2), b = plane / p->kv_heads, kv_head = plane % p->kv_heads;
    stand.from = (part.first_tile + (int)get_group_id(0)) * TILE_KEYS;
    const int wants = wants_here(&part, workspace, plane, stand.from);
    const int columns = wants & OWNER_WANTS_FIRST ? min(COLUMNS, p->head_dim - first_column) : 0;
    const int columns_v = wants & OWNER_WANTS_DVALUE ? min(COLUMNS, p->head_dim_v - first_column) : 0;
    if (!wants) {
        return;
    }
    const sequence s = sequence_of(p, &in, b);
    REAL dkey[ITEM_ROWS][ITEM_COLUMNS], dvalue[ITEM_ROWS][ITEM_COLUMNS];
    FOR_ROWS FOR_COLUMNS dkey[r][c] = dvalue[r][c] = 0;
    owner_total dkey_total, dvalue_total;
    const int away = not_known(p);
    int runs_ended = 0;
    uint run = 0;
    if (RUNS) {
        begin_total(away, &dkey_total);
        begin_total(away, &dvalue_total);
    }
    for (int more = next_met(p, &in, &s, b, kv_head * group, kv_head, 0, &stand); more;
         more = next_met(p, &in, &s, b, stand.rows.h, kv_head, stand.rows.first_row + TILE_ROWS, &stand)) {
        const uint now = RUNS ? run_of_row(&s, stand.rows.h - kv_head * group, stand.rows.first_row) : 0;
        if (now != run) {
            end_run(away, dkey[0], &dkey_total);
            end_run(away, dvalue[0], &dvalue_total);
            run = now;
            runs_ended = 1;
        }
        const uint kept = HAS(DROPOUT) ? kept_pairs(p, &stand) : 0;
        const tensor_rows query = query_rows(p, &stand), key = key_tile(p, &in, &stand);
        const tensor_rows gradients = dout_rows(&dout_place, &stand), value = value_tile(p, &in, &stand);
        REAL weight[ITEM_ROWS][ITEM_KEYS], slack[ITEM_ROWS][ITEM_KEYS], pair[ITEM_ROWS][ITEM_KEYS];
        multiply_query_key(&stand, &room, in.key, &key, in.query, &query, p->head_dim, away, weight);
        weigh_pairs(p, &in, workspace, &stand, pairs, weight, slack);
        if (columns_v > 0) {
            FOR_ROWS FOR_KEYS pair[r][n] = weight[r][n];
            if (HAS(DROPOUT)) {
                drop_weights(p, kept, pair);
            }
            write_pairs(pairs, &stand, pair);
        }
        add_dout(&stand, &room, dout, &gradients, first_column, columns_v, dvalue);
        multiply_dout_value(&stand, &room, in.value, &value, dout, &gradients, columns > 0 ? p->head_dim_v : 0, away,
                            pair);
        if (columns > 0) {
            differentiate_pairs(p, workspace, &stand, kept, HAS_ANY(CHANGING) ? slack : weight, pair);
            write_pairs(pairs, &stand, pair);
        }
        add_query(&stand, &room, in.query, &query, first_column, columns, dkey);
    }
    if (RUNS && runs_ended) {
        end_run(away, dkey[0], &dkey_total);
        end_run(away, dvalue[0], &dvalue_total);
        take_total(away, &dkey_total, dkey[0]);
        take_total(away, &dvalue_total, dvalue[0]);
    }
    FOR_ROWS {
        const int j = stand.from + stand.y * ITEM_ROWS + r;
        if (j < s.stored_len) {
            const clattn_i64 key_row = s.key_row + j;
            STORE_ROW(&own_place, gradient, place_at(&own_place, b, kv_head, key_row, first_column), columns, dkey[r],
                      PARAM_REAL(p, scale))
            STORE_ROW(&dvalue_place, dvalue_gradient, place_at(&dvalue_place, b, kv_head, key_row, first_column),
                      columns_v, dvalue[r], 1)
        }
    }
}

#else

DEFINE_WEIGHT_SUM(weight_sum, REAL, EXP, FINDS_D)

static inline int some_have_rests(const clattn_params *p, __global const REAL *workspace, const row_block *rows,
                                  float rests_from)
{
    int some = 0;
    for (int i = rows->first_row; i <= rows->last_row; ++i) {
        some |= lse_has_rest(workspace[terms_at(p, rows, i) + TERM_LSE], rests_from);
    }
    return some;
}

static inline void store_terms_of_rows(const clattn_params *p, const attention_buffers *in, const row_inputs *row_in,
                                       const row_block *rows, __global REAL *workspace)
{
    const int end = min(rows->first_row + TILE_ROWS, p->query_len);
    for (int i = rows->first_row + (int)get_local_id(0); i < end; i += WORK_ITEMS) {
        store_row_terms(p, in, row_in, &rows->s, rows->b, rows->h, i, workspace + terms_at(p, rows, i));
    }
}

/* Numbers of a row that each of its work-items has, side by side in local memory. */
#define FOUND_AT(x, which) ((3 * (x) + (which)) * ROW_PITCH)
#if ITEM_KEYS < 3
#error "what is found has no room in pairs"
#endif

/* What was found of the rows goes to their terms. */
INLINE void store_found(const clattn_params *p, const attention_buffers *in, const row_inputs *row_in,
                        const row_block *rows, float rests_from, __local const REAL *found, __global REAL *workspace)
{
    for (int row = (int)get_local_id(0); row < TILE_ROWS; row += WORK_ITEMS) {
        const int i = rows->first_row + row;
        if (i > rows->last_row || !lse_has_rest(workspace[terms_at(p, rows, i) + TERM_LSE], rests_from)) {
            continue;
        }
        __global REAL *terms = workspace + terms_at(p, rows, i);
        REAL most = LEAST_DIFFERENCE, weights = 0, products = 0;
        for (int x = 0; x < TILE_KEYS / ITEM_KEYS; ++x) {
            most = fmax(most, found[FOUND_AT(x, 0) + row]);
        }
        for (int x = 0; x < TILE_KEYS / ITEM_KEYS; ++x) {
            const REAL factor = EXP(found[FOUND_AT(x, 0) + row] - most);
            weights += found[FOUND_AT(x, 1) + row] * factor;
            products += found[FOUND_AT(x, 2) + row] * factor;
        }
        store_found_terms(p, in, row_in, &rows->s, rows->b, rows->h, i, most, weights, products, terms);
    }
}

__kernel WORK_GROUP LEAST_SUB_GROUP void
row_rests(OWNER_ARGUMENTS)
{
    BACKWARD_INPUTS(p, in);
    ROW_INPUTS(p);
    ROOM;
    weight_sum sums[ITEM_ROWS];
    REAL origin[ITEM_ROWS];
    stand.rows = row_block_here(p, &in, part.first_tile * TILE_ROWS, part.first_plane, part.tiles);
    const row_block *rows = &stand.rows;
    store_terms_of_rows(p, &in, &row_in, rows, workspace);
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (!some_have_rests(p, workspace, rows, part.rests_from)) {
        return;
    }
    const int away = not_known(p), high = key_high(p, &rows->s, rows->last_row);
    FOR_ROWS begin_weight_sum(&sums[r]);
    load_terms(p, workspace, &stand, TERM_LSE, origin);
    for (stand.from = key_low(p, &rows->s, rows->first_row); stand.from < high;
         stand.from = next_tile(p, rows, stand.from)) {
        const tensor_rows query = query_rows(p, &stand), key = key_tile(p, &in, &stand);
        const tensor_rows gradients = dout_rows(&dout_place, &stand), value = value_tile(p, &in, &stand);
        REAL score[ITEM_ROWS][ITEM_KEYS], slack[ITEM_ROWS][ITEM_KEYS], by[ITEM_ROWS][ITEM_KEYS];
        multiply_query_key(&stand, &room, in.query, &query, in.key, &key, p->head_dim, away, score);
        const uint visible = find_logits(p, &in, &stand, pairs, score, slack);
        if (FINDS_D) {
            multiply_dout_value(&stand, &room, dout, &gradients, in.value, &value, p->head_dim_v, away, by);
            drop_products(p, HAS(DROPOUT) ? kept_pairs(p, &stand) : 0, by);
        }
        FOR_ROWS {
            FOR_KEYS score[r][n] = BIT(visible, r, n) ? score[r][n] - origin[r] : -INFINITY;
            add_to_weight_sum(&sums[r], score[r], by[r], ITEM_KEYS);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_ROWS {
        const int row = stand.y * ITEM_ROWS + r;
        pairs[FOUND_AT(stand.x, 0) + row] = sums[r].most;
        pairs[FOUND_AT(stand.x, 1) + row] = sums[r].weights + sums[r].weights_lost;
        pairs[FOUND_AT(stand.x, 2) + row] = sums[r].products + sums[r].products_lost;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    store_found(p, &in, &row_in, rows, part.rests_from, pairs, workspace);
}

__kernel WORK_GROUP LEAST_SUB_GROUP void
row_gradients(OWNER_ARGUMENTS)
{
    BACKWARD_INPUTS(p, in);
    OWN_OUTPUT(p);
    ROOM;
    const int columns = min(COLUMNS, p->head_dim - first_column);
    REAL dquery[ITEM_ROWS][ITEM_COLUMNS];
    FOR_ROWS FOR_COLUMNS dquery[r][c] = 0;
    stand.rows = row_block_here(p, &in, part.first_tile * TILE_ROWS, part.first_plane, part.tiles);
    const row_block *rows = &stand.rows;
    if (!wants_here(&part, workspace, rows->b * p->query_heads + rows->h, rows->first_row)) {
        return;
    }
    /* A block past the end of its sequence has no keys, and no rows to write. */
    const int high = rows->first_row <= rows->last_row ? key_high(p, &rows->s, rows->last_row) : 0;
    owner_total total;
    const int away = not_known(p);
    int runs_ended = 0, next;
    if (RUNS) {
        begin_total(away, &total);
    }
    for (stand.from = key_low(p, &rows->s, rows->first_row); stand.from < high; stand.from = next) {
        const uint kept = HAS(DROPOUT) ? kept_pairs(p, &stand) : 0;
        const tensor_rows query = query_rows(p, &stand), key = key_tile(p, &in, &stand);
        const tensor_rows gradients = dout_rows(&dout_place, &stand), value = value_tile(p, &in, &stand);
        REAL weight[ITEM_ROWS][ITEM_KEYS], slack[ITEM_ROWS][ITEM_KEYS], dz[ITEM_ROWS][ITEM_KEYS];
        multiply_query_key(&stand, &room, in.query, &query, in.key, &key, p->head_dim, away, weight);
        weigh_pairs(p, &in, workspace, &stand, pairs, weight, slack);
        multiply_dout_value(&stand, &room, dout, &gradients, in.value, &value, p->head_dim_v, away, dz);
        differentiate_pairs(p, workspace, &stand, kept, HAS_ANY(CHANGING) ? slack : weight, dz);
        write_pairs(pairs, &stand, dz);
        add_key(&stand, &room, in.key, &key, first_column, columns, dquery);
        next = next_tile(p, rows, stand.from);
        if (RUNS && next < high && next / RUN_KEYS != stand.from / RUN_KEYS) {
            end_run(away, dquery[0], &total);
            runs_ended = 1;
        }
    }
    if (RUNS && runs_ended) {
        end_run(away, dquery[0], &total);
        take_total(away, &total, dquery[0]);
    }
    FOR_ROWS {
        const int i = rows->first_row + stand.y * ITEM_ROWS + r;
        if (i <= rows->last_row) {
            STORE_ROW(&own_place, gradient,
                      place_at(&own_place, rows->b, rows->h, rows->s.query_row + i, first_column), columns,
                      dquery[r], PARAM_REAL(p, scale))
        }
    }
}

#endif
