/* The gradients of queries, keys and values on a matrix unit: what backward_simt.cl computes, with the units, tiles and
 * products of fused_mma (mma/unit.clh, mma/products.clh), by the products of FlashAttention's backward pass (Dao et al.
 * 2022; Dao 2023). Who adds a gradient up owns it: no atomics, no sums of others. A program has one of
 *
 *                  OWNS_KEYS 1                                   OWNS_KEYS 0
 *     group 0      tile of keys                                  block of rows
 *     group 2      key/value head of a batch entry               query head of a batch entry
 *     walks over   rows of all heads of its group                keys
 *     each time    S = query . key, P = exp(S - lse)             S, P
 *                  dvalue += P^T dout       where SUMS has it    dP = dout . value, dZ = P (dP - D)
 *                  dP, dZ                                        dquery += dZ key
 *                  dkey += dZ^T query       likewise
 *
 * What is owned stays in registers: its two tensors as the unit's second operand, and its sums. P and dZ meet the other
 * operand in WEIGHT_PARTS of the type, as weights do in fused_mma.
 *
 * What is not finite is not for products: 0 times a hidden NaN, and an infinity in parts, are NaN. Where it reached a
 * sum of a tile, nothing of the tile is written, and backward_simt.cl is told to do it (clattn_owner_part), which has
 * the case. So bits of a gradient depend on its own tile, and what that meets, alone. */
#ifndef OWNS_KEYS
#define OWNS_KEYS 1
#endif
#ifndef DEPTH
#define TILE_ROWS 64
#define TILE_KEYS 32
#define WORK_ITEMS 128
#define DEPTH 64
#define COLUMNS 64
#endif
#ifndef SUMS
#define SUMS OWNER_WANTS_BOTH /* that this program has; of rows there is but the first */
#endif

#include "backward_gpu/mma_tile.clh"

#define HAS_FIRST (!OWNS_KEYS || (SUMS & OWNER_WANTS_FIRST) != 0)
#define HAS_DVALUE (OWNS_KEYS && (SUMS & OWNER_WANTS_DVALUE) != 0)

/* Sums on their way out, in float32: rows of COLUMNS, padded. */
#define SUM_PITCH (COLUMNS + 4)
#define SUMS_TILE (OWNED * SUM_PITCH * 4 / ELEMENT_BYTES)
#define LOCAL_SIZE MMA_LARGER(MMA_LARGER(BUFFERS * WALKED_TILES, QUERY_TILE), SUMS_TILE)

/* Which tile comes next. */
typedef struct walk {
    int h, at; /* query head; first row, or key */
} walk;

#if OWNS_KEYS
/* The keys that the work-group owns, from number `first` on, of which *there exist, and where its walk begins. */
INLINE side own_tile(const clattn_params *p, const attention_buffers *in, const clattn_input_place *dout_place,
                     __global const STORAGE *dout, int plane, int first, pair_tile *at, walk *next, int *there)
{
    at->b = plane / p->kv_heads;
    at->kv_head = plane % p->kv_heads;
    at->s = sequence_of(p, in, at->b);
    at->from = first;
    next->h = at->kv_head * (p->query_heads / p->kv_heads);
    next->at = 0;
    *there = clamp(at->s.key_len - first, 0, OWNED);
    return side_of_keys(p, in, &at->s, at->b, at->kv_head);
}

/* Causal: the first keys meet the most rows and go first. */
INLINE int tile_of_group(const clattn_params *p, const clattn_owner_part *part)
{
    return part->first_tile + (int)get_group_id(0);
}

/* The first tile from `next` on that there is; 0: there is none. */
INLINE int find_next(const clattn_params *p, const attention_buffers *in, const pair_tile *at, walk *next)
{
    const int end = (at->kv_head + 1) * (p->query_heads / p->kv_heads);
    for (; next->h < end; ++next->h) {
        for (; next->at < at->s.query_len; next->at += WALKED) {
            sequence s = at->s;
            const int last_row = min(next->at + WALKED, s.query_len) - 1;
            narrow_to_rows(p, in, &s, at->b, next->h, 1, next->at, last_row);
            if (rows_meet_keys(p, &s, next->at, last_row, at->from, OWNED)) {
                return 1;
            }
        }
        next->at = 0;
    }
    return 0;
}

INLINE void step(const clattn_params *p, const pair_tile *at, walk *next)
{
    next->at += WALKED;
}
#else
/* Rows as the owned side. */
INLINE side own_tile(const clattn_params *p, const attention_buffers *in, const clattn_input_place *dout_place,
                     __global const STORAGE *dout, int plane, int first, pair_tile *at, walk *next, int *there)
{
    at->b = plane / p->query_heads;
    at->h = plane % p->query_heads;
    at->kv_head = kv_head_of(p, at->h);
    at->s = sequence_of(p, in, at->b);
    at->first_row = first;
    at->last_row = min(first + OWNED, at->s.query_len) - 1;
    narrow_to_rows(p, in, &at->s, at->b, at->h, 1, first, at->last_row);
    next->h = at->h;
    next->at = key_low(p, &at->s, first);
    *there = clamp(at->s.query_len - first, 0, OWNED);
    return side_of_rows(p, in, dout_place, dout, &at->s, at->b, at->h);
}

/* Causal: the last rows see the most keys and go first. */
INLINE int tile_of_group(const clattn_params *p, const clattn_owner_part *part)
{
    const int group = (int)get_group_id(0);
    return part->first_tile + (HAS(CAUSAL) ? part->tiles - 1 - group : group);
}

INLINE int find_next(const clattn_params *p, const attention_buffers *in, const pair_tile *at, const walk *next)
{
    return at->first_row <= at->last_row && next->at < key_high(p, &at->s, at->last_row);
}

INLINE void step(const clattn_params *p, const pair_tile *at, walk *next)
{
    next->at = next_tile_of(p, &at->s, at->first_row, next->at);
}
#endif

/* Copies the tile on its way; returns this work-item's term of its rows. */
INLINE float fetch_walked(const clattn_params *p, const attention_buffers *in, const clattn_input_place *dout_place,
                          __global const STORAGE *dout, __global const REAL *workspace, const pair_tile *at,
                          const walk *next, __local element *tile)
{
    const int item = at->u.item;
#if OWNS_KEYS
    const side rows = side_of_rows(p, in, dout_place, dout, &at->s, at->b, next->h);
    stage_walked(item, tile, &rows, next->at, at->s.query_len);
    return item < 2 * WALKED ? term_of_row(p, workspace, at->b, next->h, next->at + item / 2, at->s.query_len - 1,
                                           item % 2)
                             : 0;
#else
    const side keys = side_of_keys(p, in, &at->s, at->b, at->kv_head);
    stage_walked(item, tile, &keys, next->at, at->s.key_len);
    return 0;
#endif
}

/* The sums of the work-group, times `factor`, to local memory; returns whether this work-item has one that is not
 * finite. */
INLINE int put_sums(const pair_tile *at, float factor, const float up[QUERY_SLOTS],
                    float sum[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS], __local float *to)
{
    float down[QUERY_SLOTS];
    int not_finite = 0;
    FOR_SLOTS down[slot] = FITS_PAIRS ? 1 / up[slot] : 1;
    FOR_COLUMNS FOR_QUERIES FOR_ELEMENTS {
        not_finite |= !isfinite(sum[c][n][i]);
        to[owned_of(at, n, i) * SUM_PITCH + c * 16 + c_row(at->u.lane, i)] =
            sum[c][n][i] * down[SLOT_OF(n, i)] * factor;
    }
    return not_finite;
}

/* `count` rows of the gradient, of which the first begins at element `first_at`. */
INLINE void write_sums(int item, const clattn_place *to, __global void *gradient, clattn_i64 first_at, int count,
                       int columns, __local const float *sums)
{
    #pragma unroll 1
    for (int n = item; n < count * COLUMNS; n += WORK_ITEMS) {
        const int row = n / COLUMNS, column = n % COLUMNS;
        if (column < columns) {
            store_gradient(to, gradient, first_at + row * to->stride[2] + column * to->stride[3],
                           sums[row * SUM_PITCH + column]);
        }
    }
}

/* All work-items pass it: sums that are finite are written, others left to do. */
INLINE void finish_sums(const pair_tile *at, float factor, const float up[QUERY_SLOTS],
                        float sum[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS], const clattn_place *to,
                        __global void *gradient, clattn_i64 first_at, int count, int columns, __local float *sums,
                        __local int *not_finite, __global REAL *redo)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at->u.item == 0) {
        *not_finite = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (put_sums(at, factor, up, sum, sums)) {
        *not_finite = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at->u.item == 0) {
        *redo = *not_finite;
    }
    write_sums(at->u.item, to, gradient, first_at, *not_finite ? 0 : count, columns, sums);
}

/* P as it meets dout: of what dropout keeps. */
INLINE void keep_pairs(const uint kept[BIT_WORDS], float weight[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS],
                       float pair[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS])
{
    FOR_KEYS FOR_QUERIES FOR_ELEMENTS {
        const int is_kept = !ASKS(DROPOUT) || BIT(kept, ELEMENT(k, n, i));
        pair[k][n][i] = is_kept ? weight[k][n][i] : 0;
    }
}

#if !OWNS_KEYS
#define KERNEL_NAME mma_gradients_of_rows
#elif SUMS == OWNER_WANTS_DVALUE
#define KERNEL_NAME mma_gradients_of_values
#else
#define KERNEL_NAME mma_gradients_of_keys
#endif
__kernel __attribute__((reqd_work_group_size(WORK_ITEMS, 1, 1))) SUB_GROUP void
KERNEL_NAME(OWNER_ARGUMENTS)
{
    BACKWARD_INPUTS(p, in);
    OWN_OUTPUT(p);
    LOCAL_TILES(tiles, LOCAL_SIZE);
    __local float parked[PARKED_FLOATS];
    __local int not_finite;
#if OWNS_KEYS
    __local float walked_terms[BUFFERS * 2 * WALKED];
#endif
#if EMULATED
    __local int scratch[WORK_ITEMS / SUB_GROUP_ITEMS * SCRATCH];
#endif
    const int plane = part.first_plane + (int)get_group_id(2), sub_group = (int)get_local_id(0) / SUB_GROUP_ITEMS;
    pair_tile stand, *at = &stand;
    stand.u.item = (int)get_local_id(0);
    stand.u.lane = stand.u.item % SUB_GROUP_ITEMS;
#if EMULATED
    stand.u.scratch = scratch + sub_group * SCRATCH;
#endif
    stand.own = sub_group * GROUP_ROWS;
    walk next;
    const int first = tile_of_group(p, &part) * OWNED;
    int there;
    const side own = own_tile(p, &in, &dout_place, dout, plane, first, at, &next, &there);

    uint first_words[DEPTH_BLOCKS][N_BLOCKS][B_WORDS], second_words[DEPTH_BLOCKS][N_BLOCKS][B_WORDS];
    load_owned(at, &own.first, &own.first_rows, there ? first : 0, there, tiles, first_words);
    if (HAS_FIRST) {
        load_owned(at, &own.second, &own.second_rows, there ? first : 0, there, tiles, second_words);
    }
    float first_sum[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS], first_up[QUERY_SLOTS];
    float dvalue_sum[COLUMN_BLOCKS][N_BLOCKS][C_ELEMENTS], dvalue_up[QUERY_SLOTS];
    FOR_COLUMNS FOR_QUERIES FOR_ELEMENTS first_sum[c][n][i] = dvalue_sum[c][n][i] = 0;
    FOR_SLOTS first_up[slot] = dvalue_up[slot] = UP_FIRST;
#if !OWNS_KEYS
    float owned_terms[2][QUERY_SLOTS];
    FOR_SLOTS {
        const int row = first + stand.own + slot / SLOTS * MATRIX_N + c_column(stand.u.lane, slot % SLOTS);
        owned_terms[0][slot] = term_of_row(p, workspace, stand.b, stand.h, row, stand.last_row, 0);
        owned_terms[1][slot] = term_of_row(p, workspace, stand.b, stand.h, row, stand.last_row, 1);
    }
#endif
    clear_tiles(stand.u.item, tiles, BUFFERS * WALKED_TILES, p->head_dim < DEPTH || p->head_dim_v < DEPTH);
    barrier(CLK_LOCAL_MEM_FENCE);

    const float scale = CHANGES_SCORES ? 1 : PARAM_REAL(p, scale);
    __local element *tile = tiles, *next_tile = tiles + (BUFFERS - 1) * WALKED_TILES;
    float term = 0;
    int more = there > 0 && find_next(p, &in, at, &next);
    if (more & (BUFFERS == 2)) {
        term = fetch_walked(p, &in, &dout_place, dout, workspace, at, &next, tile);
    }
    owner_total first_total, dvalue_total;
    const int away = not_known(p);
    int runs_ended = 0;
    if (RUNS && HAS_FIRST) {
        begin_total(away, &first_total);
    }
    if (RUNS && HAS_DVALUE) {
        begin_total(away, &dvalue_total);
    }
    while (more) {
        float weight[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS], slack[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS];
        float pair[KEY_BLOCKS][N_BLOCKS][C_ELEMENTS];
        uint visible[BIT_WORDS], kept[BIT_WORDS];
        const uint run = run_of(p, at, next.h, next.at);
        renew(&stand.u);
        if (BUFFERS == 1) {
            barrier(CLK_LOCAL_MEM_FENCE);
            term = fetch_walked(p, &in, &dout_place, dout, workspace, at, &next, tile);
        }
#if OWNS_KEYS
        row_terms terms = walked_terms + (tile == tiles ? 0 : 2 * WALKED);
        if (stand.u.item < 2 * WALKED) {
            walked_terms[(tile == tiles ? 0 : 2 * WALKED) + stand.u.item] = term;
        }
        stand.h = next.h;
        stand.first_row = next.at;
        stand.last_row = min(next.at + WALKED, stand.s.query_len) - 1;
        narrow_to_rows(p, &in, &stand.s, stand.b, stand.h, 1, stand.first_row, stand.last_row);
#else
        row_terms terms = owned_terms;
        stand.from = next.at;
#endif
        const int all_see = all_pairs_see(p, at);
        walked_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        step(p, at, &next);
        more = find_next(p, &in, at, &next);
        if (more & (BUFFERS == 2)) {
            term = fetch_walked(p, &in, &dout_place, dout, workspace, at, &next, next_tile);
        }
        if (!(all_see | CHANGES_SCORES)) {
            find_visible(p, &in, at, visible);
        }
        if (ASKS(DROPOUT)) {
            find_kept(p, &in, at, kept);
        }
        multiply_scores(&stand.u, tile, tile, first_words, 0, weight);
        if (CHANGES_SCORES) {
            change_pairs(p, &in, at, parked, visible, weight, slack);
        }
        weigh_pairs(at, terms, scale, all_see, visible, weight);
        if (HAS_DVALUE) {
            keep_pairs(kept, weight, pair);
            add_pairs(&stand.u, tile + TENSOR_TILE, pair, dvalue_up, dvalue_sum);
        }
        if (HAS_FIRST) {
            multiply_scores(&stand.u, tile + TENSOR_TILE, tile, second_words, 0, pair);
            differentiate_pairs(p, at, terms, kept, weight, slack, pair);
            add_pairs(&stand.u, tile, pair, first_up, first_sum);
        }
        if (RUNS && more && run_of(p, at, next.h, next.at) != run) {
            end_run_of(HAS_FIRST, away, first_up, first_sum, &first_total);
            end_run_of(HAS_DVALUE, away, dvalue_up, dvalue_sum, &dvalue_total);
            runs_ended = 1;
        }
        if (BUFFERS == 2) {
            __local element *const done = tile;
            tile = next_tile;
            next_tile = done;
        }
    }

    if (RUNS && runs_ended) {
        end_run_of(HAS_FIRST, away, first_up, first_sum, &first_total);
        end_run_of(HAS_DVALUE, away, dvalue_up, dvalue_sum, &dvalue_total);
        take_total_of(HAS_FIRST, away, &first_total, first_up, first_sum);
        take_total_of(HAS_DVALUE, away, &dvalue_total, dvalue_up, dvalue_sum);
    }
    __global REAL *redo = workspace + REDO_AT(&part, plane, first);
    __local float *sums = (__local float *)tiles;
#if OWNS_KEYS
    const int count = clamp(stand.s.stored_len - first, 0, OWNED);
    const clattn_i64 row = stand.s.key_row + first;
    const int head = stand.kv_head;
    if (HAS_DVALUE) {
        DVALUE_OUTPUT(p, part);
        finish_sums(at, ASKS(DROPOUT) ? PARAM_REAL(p, keep_scale) : 1, dvalue_up, dvalue_sum, &dvalue_place,
                    dvalue_gradient, place_at(&dvalue_place, stand.b, head, row, 0),
                    part.wants & OWNER_WANTS_DVALUE ? count : 0, p->head_dim_v, sums, &not_finite, redo + 1);
    }
#else
    const int count = there, head = stand.h;
    const clattn_i64 row = stand.s.query_row + first;
#endif
    if (HAS_FIRST) {
        finish_sums(at, PARAM_REAL(p, scale), first_up, first_sum, &own_place, gradient,
                    place_at(&own_place, stand.b, head, row, 0), part.wants & OWNER_WANTS_FIRST ? count : 0,
                    p->head_dim, sums, &not_finite, redo);
    }
}
