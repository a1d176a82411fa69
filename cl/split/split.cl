/* split: few query rows against many keys (decoding), by a K/V split (Flash-Decoding; Dao et al. 2023): keys and
 * values are cut into splits of SPLIT_KEYS, which are read once for all rows that share them; then the splits are
 * combined by their row maxima and row sums, as in an online softmax (Milakov and Gimelshein 2018). Where there are
 * heads enough, one work-group does all splits of a head and combines them; else each split has a work-group,
 * and a second kernel combines. The cut depends on the key's number alone, and both ways are the same
 * operations, so results do not depend on how many compute units there are, nor on what else is in the batch.
 *
 *     split_head     group id 0: block of a key/value head's rows      1: batch entry or packed sequence
 *     split_attend   group id 0: split      1: block      2: batch entry
 *     split_combine  group id 0: row        1: block      2: batch entry
 *
 * Scores: lanes along head_dim, 16 dot products at once (AT_ONCE rows x 16 / AT_ONCE keys), whose lanes are
 * summed together at the end. Softmax: lanes along the keys. Mixing: lanes along head_dim_v. */
#include "common/group_kernel.clh"
#include "pair/hidden.clh"
#include "split/products.clh"
#include "common/sum_and_rest.clh"

#ifndef ONE_LAUNCH
#define ONE_LAUNCH 0 /* 1: split_head; 0: the other two. A program has what its plan runs. */
#endif

/* Scores of row r become logits; returns their maximum, and in `seen` whether the row sees any key. */
static inline float finish_scores(const clattn_params *p, const attention_buffers *in, const kv_split *t, int r,
                                  float *scores, int *seen)
{
    pair_row row = pair_row_of(p, in, &t->s, t->b, head_of(t, r), position_of(t, r));
    row.high = LISTED ? row.high : min(row.high, t->from + t->count);
    float16 maximum = -INFINITY;
    int16 visible = 0;
    for (int j = 0; j < t->count; j += 16) {
        const float16 terms = terms_of_row(p, in, &t->s, &row, t->from + j, t->has_holes);
        const pair_places places = places_of_row(&t->s, &row, t->from + j);
        const float16 logit = finish_logits(p, in, &places, vload16(0, scores + j), &terms);
        visible |= (TEXT_HAS(SCORE) ? logit : terms) != -INFINITY;
        *(float16 *)(scores + j) = logit;
        maximum = max_16(logit, maximum);
    }
    *seen = any(visible);
    return largest_16(maximum);
}

/* Logits become weights; returns their sum. */
static inline float weigh_scores(const kv_split *t, float maximum, float *scores)
{
    float16 sum = 0.0f;
    for (int j = 0; j < t->count; j += 16) {
        float16 weight = exp_16(vload16(0, scores + j) - (maximum == -INFINITY ? 0.0f : maximum));
        sum += weight;
        if (TEXT_HAS(SCORE)) { /* for mix_row_hiding */
            weight = vload16(0, scores + j) == -INFINITY ? (float16)-0.0f : weight;
        }
        *(float16 *)(scores + j) = weight;
    }
    return sum_16(sum);
}

/* P * V of one row, where values are not finite and the row must not see some of them. */
static inline void mix_row_hiding(const clattn_params *p, const attention_buffers *in, const kv_split *t, int r,
                                  value_row values, const split_rows *rows, const float *weights,
                                  __global float *to)
{
    const pair_row row = pair_row_of(p, in, &t->s, t->b, head_of(t, r), position_of(t, r));
    for (int c = 0; c < HEAD_DIM_V; ++c) {
        float sum = 0.0f, total = 0.0f; /* in mix_block's order */
        for (int j = 0; j < t->count; ++j) {
            float bias;
            if (j % MIX_KEYS == 0) {
                total += sum;
                sum = 0.0f;
            }
            if (sees_key(p, in, &t->s, &row, key_at_place(&t->s, t->from + j), &bias) &&
                !(TEXT_HAS(SCORE) && IS_HIDDEN_WEIGHT(weights[j]))) {
                scale_row scales;
                if (VALUE_SCALED) {
                    scales = split_scales_at(rows, j);
                }
                sum = FMA(VALUE_1(split_value_at(values, rows, j), &scales, c, 1), weights[j], sum);
            }
        }
        to[c] = total + sum;
    }
}

/* Every row sees every key of the split. */
static inline int split_is_full(const clattn_params *p, const kv_split *t)
{
    return !HIDES_PAIRS &&
           all_rows_see(p, &t->s, position_of(t, 0), position_of(t, t->rows - 1), t->from, t->count);
}

/* The keys and values of a split, for all rows. */
static inline void attend_split(const clattn_params *p, const attention_buffers *in, kv_split *t,
                                __global float *to, __global float *state)
{
    if (split_is_unseen(p, t)) {
        for (int r = 0; r < t->rows; ++r) {
            state[SPLIT_STATE * r] = -INFINITY;
            state[SPLIT_STATE * r + 1] = UNSEEN;
        }
        return;
    }

    t->has_holes = PAGED && !pages_are_there(p, &t->s, t->from, t->count);
    float16 query_rows[PADDED_ROWS][CHUNKS];
    float16 score_vectors[PADDED_ROWS * SPLIT_KEYS / 16];
    float *scores = (float *)score_vectors;
    const int kv_head = t->first_head / GROUP;
    load_queries(p, in, t, query_rows);
    const kv_rows keys = key_rows_of(p, in, &t->s, t->b, kv_head), values = value_rows_of(p, in, &t->s, t->b, kv_head);
    const kv_scales key_scales = key_scales_of(p, in, &t->s, t->b, kv_head);
    const kv_scales value_scales = value_scales_of(p, in, &t->s, t->b, kv_head);
    score_split(t, in->key, &keys, &key_scales, query_rows, scores);
    split_rows rows;
    place_rows(t, &values, &value_scales, &rows);
    for (int j = 0; j < min(VALUES_AHEAD, t->count); ++j) {
        fetch_row(VALUE_CACHE, split_value_at(in->value, &rows, j), VALUE_BYTES);
    }
    for (int r = 0; r < PADDED_ROWS; ++r) {
        float *row = scores + r * SPLIT_KEYS;
        int seen;
        float maximum = finish_scores(p, in, t, r, row, &seen);
        float sum = weigh_scores(t, maximum, row);
        if (r < t->rows) {
            state[SPLIT_STATE * r] = maximum;
            state[SPLIT_STATE * r + 1] = seen ? sum : UNSEEN;
        }
    }
    const int finite = split_is_full(p, t) || values_are_finite(t, in->value, &rows);
    if (finite) {
        mix_split(t, in->value, &rows, scores, to);
    }
    for (int r = 0; !finite && r < t->rows; ++r) {
        mix_row_hiding(p, in, t, r, in->value, &rows, scores + r * SPLIT_KEYS, to + 16 * r * CHUNKS_V);
    }
}

DEFINE_ADD_EXACTLY(add_exactly, float)
DEFINE_ADD_EXACTLY(add_exactly_16, float16)

/* Row r: the splits' row maxima become one, and each split counts exp(its maximum - that). */
static inline void combine_splits(const clattn_params *p, const attention_buffers *in, const kv_split *t, int r,
                                  int n_splits, __global const float *from, __global const float *state)
{
    from += r * SPLIT_COLUMNS(HEAD_DIM_V);
    state += r * SPLIT_STATE;
    const int i = position_of(t, r), h = head_of(t, r);
    float maximum = -INFINITY, sum = 0.0f;
    int seen = 0;
    for (int n = 0; n < n_splits; ++n) {
        float top = state[n * ROWS * SPLIT_STATE];
        maximum = top > maximum ? top : maximum;
        seen |= state[n * ROWS * SPLIT_STATE + 1] != UNSEEN;
    }
    float16 total[CHUNKS_V], rest[CHUNKS_V];
    float sum_rest = 0.0f;
    for (int c = 0; c < CHUNKS_V; ++c) {
        total[c] = rest[c] = 0.0f;
    }
    const float sink = HAS(SINKS) ? sink_of(p, in, h) * LOGIT_UNIT : -INFINITY;
    maximum = sink > maximum ? sink : maximum;
    const float origin = maximum == -INFINITY ? 0.0f : maximum;
    sum = HAS(SINKS) ? exp2((sink - origin) * LOG2_OF_LOGIT) : 0.0f;
    for (int n = 0; n < n_splits; ++n) {
        float split_sum = state[n * ROWS * SPLIT_STATE + 1];
        if (split_sum == UNSEEN) {
            continue;
        }
        float top = state[n * ROWS * SPLIT_STATE], factor = exp2((top - origin) * LOG2_OF_LOGIT);
        add_exactly(&sum, &sum_rest, split_sum * factor);
        for (int c = 0; c < CHUNKS_V; ++c) {
            add_exactly_16(&total[c], &rest[c], vload16((clattn_i64)n * ROWS * CHUNKS_V + c, from) * factor);
        }
    }
    sum += sum_rest;
    for (int c = 0; c < CHUNKS_V; ++c) {
        total[c] += rest[c];
    }
    const clattn_i64 out_at = out_row_at(p, &t->s, t->b, h, i);
    for (int c = 0; c < HEAD_DIM_V; ++c) {
        OUT_STORE(in->out, out_at + c, seen ? ((const float *)total)[c] / sum : 0.0f);
    }
    if (HAS(LSE)) {
        in->lse[lse_at(p, &t->s, t->b, h, i)] = lse_of_logit(p, seen, maximum, sum);
    }
}

#define SPLIT_ARGUMENTS ATTENTION_ARGUMENTS, __global float *splits, int n_splits
#define SPLIT_NAMES ATTENTION_NAMES, splits, n_splits

#if ONE_LAUNCH
/* What the two below do, by the same operations in the same order. */
GROUP_KERNEL(split_head, SPLIT_ARGUMENTS, SPLIT_NAMES)
{
    SPLIT_PLACE(group.id[1], group.id[0], 0);
    for (int n = 0; n < n_splits; ++n) {
        set_split(p, &t, n);
        attend_split(p, &in, &t, values_of(p, &t, splits, n_splits), state_of(p, &t, splits, n_splits));
    }
    set_split(p, &t, 0);
    for (int r = 0; r < t.rows; ++r) {
        combine_splits(p, &in, &t, r, n_splits, values_of(p, &t, splits, n_splits),
                       state_of(p, &t, splits, n_splits));
    }
}
#else
GROUP_KERNEL(split_attend, SPLIT_ARGUMENTS, SPLIT_NAMES)
{
    SPLIT_PLACE(group.id[2], group.id[1], group.id[0]);
    attend_split(p, &in, &t, values_of(p, &t, splits, n_splits), state_of(p, &t, splits, n_splits));
}

GROUP_KERNEL(split_combine, SPLIT_ARGUMENTS, SPLIT_NAMES)
{
    const int r = group.id[0];
    SPLIT_PLACE(group.id[2], group.id[1], 0);
    if (r < t.rows) {
        combine_splits(p, &in, &t, r, n_splits, values_of(p, &t, splits, n_splits),
                       state_of(p, &t, splits, n_splits));
    }
}
#endif
