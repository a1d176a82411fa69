/* split_simt: few query rows against many keys (decoding) on GPUs, by a K/V split (Flash-Decoding; Dao et al. 2023):
 * splits of SPLIT_KEYS keys go over all compute units, each read once for up to ROWS_AT_ONCE rows that share a
 * key/value head, and are then combined by their row maxima and row sums, as in an online softmax (Milakov and
 * Gimelshein 2018). What split.cl is for CPUs; split/place.clh says where splits and their results are.
 *
 *     split_simt_attend    group 0: batch entry * splits + split   1: key/value head * row blocks + block of rows
 *     split_simt_combine   group 0: batch entry * rows + row       1: key/value head
 *
 * PARTS x PART_ITEMS work-items, and a run is 16 bytes; of values that are codes fewer. In local memory:
 *
 *     queries[r][column]            float32; all lanes of a part read the same one at once
 *     tile[key * KEY_PITCH + run]   TILE_KEYS keys. KEY_PITCH is odd, so eight neighbours read from all banks. Codes:
 *                                   a byte a column; behind them, in the same order, a word of scales for each run
 *     partial[part][r][key]         of a tile's scores: work-item (part, lane) has runs part, part + PARTS, .. of keys
 *                                   lane, lane + PART_ITEMS, .. and all rows
 *     logits[r][key], then weights[key][r]   of the split, in one place
 *     sums[r][sub][column]          P * V, of a few rows at a time, in the tile's place
 *
 * Values never pass through local memory: work-item (sub, run) loads a run of keys sub, sub + SUBS, .. and keeps sums
 * of all rows in registers. Codes become float32 where they are multiplied (split_simt/codes.clh). Every sum is taken
 * in an order that depends on head dims and types alone, so the bits of a row do not depend on the rows beside it. */
#define HAS_BARRIERS 1
#define FINDS_LIST_ENDS 0
#include "split_simt/scores.clh"
#include "common/sum_and_rest.clh"

#define VALUE_RUNS SPLIT_SIMT_RUNS(HEAD_DIM_V, VALUE_RUN)
#define ACROSS (VALUE_RUNS < ITEMS ? VALUE_RUNS : ITEMS) /* runs of a row of values, at once */
#define SUBS (ITEMS / ACROSS)
#define VALUES_AHEAD 4
#define SUM_ROWS_FIT (AREA * 4 / (ITEMS * VALUE_RUN))
#define SUM_ROWS (SUM_ROWS_FIT < ROWS_AT_ONCE ? SUM_ROWS_FIT : ROWS_AT_ONCE)

#define FOR_VALUES UNROLL for (int n = 0; n < VALUES_AHEAD; ++n)

#if IS_CODES(VALUE_TYPE)
/* A key past the last is that once more. */
INLINE void fetch_code_values(const attention_buffers *in, const work_group *g, const run_source *values, int key,
                              int run, int is_one_load, value_run runs[VALUES_AHEAD])
{
    FOR_VALUES
    {
        const int j = min(key + n * SUBS, g->t.count - 1);
        runs[n] = fetch_value_run(in->value, values, g->t.from + j, run, is_one_load);
    }
}
#endif

/* Runs `run` of keys `key`, key + SUBS, .. */
INLINE void fetch_values(const attention_buffers *in, const work_group *g, const run_source *values, int key, int run,
                                value_run runs[VALUES_AHEAD])
{
#if IS_CODES(VALUE_TYPE)
    const int is_there = key < g->t.count && run < VALUE_RUNS;
    if (is_there && IS_ONE_LOAD(VALUE_TYPE, VALUE_RUN, values)) {
        fetch_code_values(in, g, values, key, run, 1, runs);
    } else if (is_there) {
        fetch_code_values(in, g, values, key, run, 0, runs);
    }
#else
    FOR_VALUES
    {
        const int j = key + n * SUBS;
        runs[n] = j < g->t.count ? fetch_value_run(in->value, values, g->t.from + j, run) : (uint4)0;
    }
#endif
}

/* Adds the products of weights and values: those of keys `key`, key + SUBS, .., of which `all_there` says that none is
 * past the last. A hidden value, which may be an infinity or a NaN, must not meet its weight of 0. */
INLINE void mix_turn(const clattn_params *p, const work_group *g, const run_source *values, int key, int run,
                     __local const float *weights, ready_run now[VALUES_AHEAD], int all_there,
                     float sum[ROWS_AT_ONCE][VALUE_RUN])
{
    FOR_VALUES
    {
        const int j = key + n * SUBS;
        float value[VALUE_RUN];
        WIDEN_VALUE_RUN(&now[n], values, g->t.from + min(j, g->t.count - 1), run, value);
        if (all_there || j < g->t.count) {
            FOR_ROWS
            {
                const float weight = weights[j * ROWS_AT_ONCE + r];
                const int is_seen = !(FLAGS & CLATTN_FLAGS_HIDING) || !IS_HIDDEN_WEIGHT(weight);
                UNROLL
                for (int c = 0; c < VALUE_RUN; ++c) {
                    sum[r][c] = is_seen ? FMA(weight, value[c], sum[r][c]) : sum[r][c];
                }
            }
        }
    }
}

/* The sums of this work-item's columns over its keys, whose first values are in `runs`. */
INLINE void mix_values(const clattn_params *p, const attention_buffers *in, const work_group *g,
                       const run_source *values, int sub, int run, __local const float *weights,
                       value_run runs[VALUES_AHEAD], float sum[ROWS_AT_ONCE][VALUE_RUN])
{
    #pragma unroll 1
    for (int key = sub; key < g->t.count; key += VALUES_AHEAD * SUBS) {
        ready_run now[VALUES_AHEAD];
        FOR_VALUES now[n] = READY_VALUE_RUN(&runs[n]);
        fetch_values(in, g, values, key + VALUES_AHEAD * SUBS, run, runs);
        if (IS_CODES(VALUE_TYPE) && key - sub + VALUES_AHEAD * SUBS <= g->t.count) {
            mix_turn(p, g, values, key, run, weights, now, 1, sum);
        } else {
            mix_turn(p, g, values, key, run, weights, now, 0, sum);
        }
    }
}

/* Adds what the work-items of a column have, in their order, for SUM_ROWS rows at a time. */
INLINE void write_sums(const work_group *g, int sub, int run, int first_run, float sum[ROWS_AT_ONCE][VALUE_RUN],
                              __local float *sums, __global float *to)
{
    const int columns = ACROSS * VALUE_RUN, last = SPLIT_COLUMNS(HEAD_DIM_V) - first_run * VALUE_RUN;
    UNROLL
    for (int first = 0; first < ROWS_AT_ONCE; first += SUM_ROWS) {
        barrier(CLK_LOCAL_MEM_FENCE);
        FOR_ROWS
        {
            if (r >= first && r < first + SUM_ROWS && sub < SUBS) {
                UNROLL
                for (int c = 0; c < VALUE_RUN; c += 4) {
                    *(__local float4 *)(sums + (((r - first) * SUBS + sub) * ACROSS + run) * VALUE_RUN + c) =
                        (float4)(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = g->item; i < SUM_ROWS * columns; i += ITEMS) {
            const int r = g->first_row + first + i / columns, column = i % columns;
            float total = 0.0f;
            for (int n = 0; n < SUBS; ++n) {
                total += sums[(i / columns * SUBS + n) * columns + column];
            }
            if (g->t.count > 0 && first + i / columns < ROWS_AT_ONCE && r < g->t.rows && column < last) {
                to[r * SPLIT_COLUMNS(HEAD_DIM_V) + first_run * VALUE_RUN + column] = total;
            }
        }
    }
}

/* The split's list ends where its first negative number stands, of those that do not lie behind the split. `end`: room
 * for the work-group, whose items look together. */
INLINE void find_list_end(const clattn_params *p, kv_split *t, __local int *end)
{
    const int item = (int)get_local_id(0), bound = t->rows > 0 ? min(t->from + SPLIT_KEYS, KEY_LIST_KEYS) : 0;
    int found = bound;
    if (item == 0) {
        *end = bound;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll 4
    for (int place = item; place < bound; place += ITEMS) {
        found = t->s.list.first[place * t->s.list.step] < 0 ? min(found, place) : found;
    }
    if (found < bound) {
        atomic_min(end, found);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    end_list(&t->s, *end);
    set_split(p, t, t->n);
}

#define SPLIT_SIMT_KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) LEAST_SUB_GROUP void

SPLIT_SIMT_KERNEL split_simt_attend(ATTENTION_ARGUMENTS, __global float *splits, int n_splits)
{
    SPLIT_PLACE(get_group_id(0) / n_splits, get_group_id(1) / BLOCKS, get_group_id(0) % n_splits);
#if LISTED
    __local int list_end;
    find_list_end(p, &t, &list_end);
#endif
    __local uint4 area[AREA];
    __local float floats[SPLIT_SIMT_FLOATS(ROWS_AT_ONCE, TILE_KEYS, HEAD_DIM, KEY_RUN)] __attribute__((aligned(16)));
    __local float *queries = floats, *partial = queries + ROWS_AT_ONCE * DEPTH;
    __local float *row_weights = partial + PARTS * ROWS_AT_ONCE * TILE_KEYS;
    __local float *own = row_weights + ROWS_AT_ONCE * SPLIT_KEYS;
    const int first_row = (int)get_group_id(1) % BLOCKS * ROWS_AT_ONCE;
    /* Without keys or rows a work-group takes the same way, through all barriers, with nothing to do between them. */
    t.count = first_row < t.rows && !split_is_unseen(p, &t) ? t.count : 0;
    const work_group here = { t, (int)get_local_id(0), first_row }, *g = &here;
    __global float *to = values_of(p, &t, splits, n_splits), *state = state_of(p, &t, splits, n_splits);
    const int kv_head = t.first_head / GROUP;
    const run_source keys = run_source_of((size_t)in.key, key_rows_of(p, &in, &t.s, t.b, kv_head),
                                          key_scales_of(p, &in, &t.s, t.b, kv_head), HEAD_DIM,
                                          RUN_ELEMENTS(KEY_RUN, KEY_TYPE), KEY_ELEMENT_BYTES);
    const run_source values = run_source_of((size_t)in.value, value_rows_of(p, &in, &t.s, t.b, kv_head),
                                            value_scales_of(p, &in, &t.s, t.b, kv_head), HEAD_DIM_V,
                                            RUN_ELEMENTS(VALUE_RUN, VALUE_TYPE), VALUE_ELEMENT_BYTES);
    const int sub = g->item / ACROSS, across = g->item % ACROSS;
    value_run runs[VALUES_AHEAD];
    stage_queries(p, &in, g, queries);
    score_split(p, &in, g, &keys, queries, area, partial, row_weights);
    fetch_values(&in, g, &values, sub, across, runs);
    weigh_split(g, row_weights, own, state);
    #pragma unroll 1
    for (int first_run = 0; first_run < VALUE_RUNS; first_run += ACROSS) {
        const int run = first_run + across;
        float sum[ROWS_AT_ONCE][VALUE_RUN];
        FOR_ROWS UNROLL for (int c = 0; c < VALUE_RUN; ++c) sum[r][c] = 0.0f;
        if (first_run > 0) {
            fetch_values(&in, g, &values, sub, run, runs);
        }
        if (sub < SUBS) {
            mix_values(p, &in, g, &values, sub, run, row_weights, runs, sum);
        }
        write_sums(g, sub, across, first_run, sum, (__local float *)area, to);
    }
}

/* ---- combining -------------------------------------------------------------------------------- */

/* Adds a split's sum, so that the number of splits changes no error. */
DEFINE_ADD_EXACTLY(add_exactly, float)
DEFINE_ADD_EXACTLY(add_exactly_4, float4)

#define QUADS ((HEAD_DIM_V + 3) / 4) /* of a row's columns */
#define QUAD_PITCH (ROWS * SPLIT_COLUMNS(HEAD_DIM_V) / 4) /* from a split to the next */
#define QUADS_ACROSS (QUADS < ITEMS ? QUADS : ITEMS)
#define QUAD_SUBS (ITEMS / QUADS_ACROSS)

/* Splits are dealt to work-items by their place among all of the sequence, so that the order of a sum depends neither
 * on where the window of the call's first row begins nor on the rows beside it: first_dealt() and next_dealt() are the
 * numbers of work-item `lane` of `step`, in ascending order. */
typedef struct split_deal {
    int pinned, left_out;
} split_deal;

static inline int dealt_behind_pinned(const split_deal *deal, int lane, int step)
{
    return deal->pinned + (lane - (deal->pinned + deal->left_out) % step + step) % step;
}

static inline int first_dealt(const split_deal *deal, int lane, int step)
{
    return lane < deal->pinned ? lane : dealt_behind_pinned(deal, lane, step);
}

static inline int next_dealt(const split_deal *deal, int n, int lane, int step)
{
    return n < deal->pinned && n + step >= deal->pinned ? dealt_behind_pinned(deal, lane, step) : n + step;
}

/* How many work-items may have been dealt any. */
#define DEALT_TO(n_splits) (HAS(WINDOW) ? ITEMS : min(n_splits, ITEMS))

/* The row maximum of all splits, and of the sink; *seen: whether the row sees any key. */
INLINE float maximum_of_splits(const clattn_params *p, const attention_buffers *in, int h, int n_splits,
                                      __global const float *state, __local float *own, int *seen)
{
    const int item = (int)get_local_id(0);
    float maximum = HIDDEN_LOGIT;
    for (int n = item; n < n_splits; n += ITEMS) {
        if (state[n * ROWS * SPLIT_STATE + 1] != UNSEEN) {
            const float top = state[n * ROWS * SPLIT_STATE];
            maximum = IS_HIDDEN_LOGIT(maximum) || top > maximum ? top : maximum;
        }
    }
    own[item] = maximum;
    barrier(CLK_LOCAL_MEM_FENCE);
    maximum = -INFINITY;
    *seen = 0;
    for (int n = 0; n < DEALT_TO(n_splits); ++n) {
        *seen |= !IS_HIDDEN_LOGIT(own[n]);
        maximum = own[n] > maximum ? own[n] : maximum;
    }
    if (HAS(SINKS)) {
        const float sink = sink_of(p, in, h);
        maximum = sink > maximum ? sink : maximum;
    }
    return maximum;
}

/* The row sum of all splits, and of the sink. */
INLINE float sum_of_splits(const clattn_params *p, const attention_buffers *in, const split_deal *deal, int h,
                                  int n_splits, __global const float *state, float maximum, float origin,
                                  __local float *own)
{
    const int item = (int)get_local_id(0);
    float sum = 0.0f, rest = 0.0f, total = HAS(SINKS) ? exp2((sink_of(p, in, h) - origin) * LOG2_E) : 0.0f;
    for (int n = first_dealt(deal, item, ITEMS); n < n_splits; n = next_dealt(deal, n, item, ITEMS)) {
        const float split_sum = state[n * ROWS * SPLIT_STATE + 1];
        if (split_sum != UNSEEN) {
            add_exactly(&sum, &rest, split_sum * exp2((state[n * ROWS * SPLIT_STATE] - origin) * LOG2_E));
        }
    }
    own[item] = sum + rest;
    rest = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = 0; n < DEALT_TO(n_splits); ++n) {
        add_exactly(&total, &rest, own[n]);
    }
    return total + rest;
}

SPLIT_SIMT_KERNEL split_simt_combine(ATTENTION_ARGUMENTS, __global const float *splits, int n_splits)
{
    const int rows = ROW_BLOCKS > 1 ? ROWS : params.query_len * GROUP;
    const int r = (int)get_group_id(0) % rows, item = (int)get_local_id(0);
    SPLIT_PLACE(get_group_id(0) / rows, get_group_id(1), 0);
    __local float4 sums[ITEMS];
    __local float own[2 * ITEMS];
    const int is_row = r < t.rows, n_here = is_row ? n_splits : 0; /* nobody wrote a state of a row that is not */
    __global float *all = (__global float *)splits;
    __global const float *from = values_of(p, &t, all, n_splits) + r * SPLIT_COLUMNS(HEAD_DIM_V);
    __global const float *state = state_of(p, &t, all, n_splits) + r * SPLIT_STATE;
    const int i = position_of(&t, r), h = head_of(&t, r), sub = item / QUADS_ACROSS;
    const split_deal deal = { pinned_splits(p), splits_left_out(p, &t.s) };
    int seen;
    const float maximum = maximum_of_splits(p, &in, h, n_here, state, own, &seen);
    const float origin = maximum == -INFINITY ? 0.0f : maximum;
    const float sum = sum_of_splits(p, &in, &deal, h, n_here, state, maximum, origin, own + ITEMS);
    const clattn_i64 out_at = out_row_at(p, &t.s, t.b, h, i);
    for (int first = 0; first < QUADS; first += QUADS_ACROSS) {
        const int quad = first + item % QUADS_ACROSS;
        float4 total = 0.0f, rest = 0.0f;
        for (int n = first_dealt(&deal, sub, QUAD_SUBS); n < n_here; n = next_dealt(&deal, n, sub, QUAD_SUBS)) {
            if (sub < QUAD_SUBS && quad < QUADS && state[n * ROWS * SPLIT_STATE + 1] != UNSEEN) {
                const float factor = exp2((state[n * ROWS * SPLIT_STATE] - origin) * LOG2_E);
                add_exactly_4(&total, &rest, vload4((clattn_i64)n * QUAD_PITCH + quad, from) * factor);
            }
        }
        sums[item] = total + rest;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c = item; c < 4 * QUADS_ACROSS; c += ITEMS) {
            float column = 0.0f, column_rest = 0.0f;
            for (int n = 0; n < QUAD_SUBS; ++n) {
                add_exactly(&column, &column_rest, ((__local const float *)sums)[4 * n * QUADS_ACROSS + c]);
            }
            if (is_row && 4 * first + c < HEAD_DIM_V) {
                OUT_STORE(in.out, out_at + 4 * first + c, seen ? (column + column_rest) / sum : 0.0f);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (HAS(LSE) && is_row && item == 0) {
        in.lse[lse_at(p, &t.s, t.b, h, i)] = lse_of(p, seen, maximum, sum);
    }
}
