/* The gradients of attention, each by a kernel of its own and no one's memory but its own: one work-item for some
 * columns of one row, which visits the pairs of its row or key one by one. Any shape, stride, mask and type, decided at
 * run time; no local memory, no atomics. What every device can run, and what others are compared with.
 *
 *     row_terms     row (i, plane)                 lse, D and lse's rest to the workspace
 *     dquery        row i, columns, plane          scale * sum_j dZ_ij key_j
 *     dkey_dvalue   key j, columns, kv plane       scale * sum_h,i dZ_ij query_i    or    sum_h,i w_ij dout_i
 *     dbias         element of the bias            sum of dS_ij over the axes whose stride is 0
 *     row_sums      block of rows, plane           what dslopes and dscale sum, to the workspace
 *     head_sums     element (b, h)                 dslopes, dsinks, dscale */
#define FLAGS (p->flags)

#include "backward/backward_plain_layout.h"
#include "backward/row.clh"
#include "forward/kv_rows.clh"
#include "pair/logit.clh"
#include "backward/lse_rest.clh"
#include "pair/philox.clh"
#include "common/sum_and_rest.clh"

#define COLUMNS BACKWARD_COLUMNS
#define BLOCK BACKWARD_BLOCK
#define FOR_COLUMNS _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c)

/* Adds a block's sum, so that the number of blocks changes no error. */
DEFINE_ADD_EXACTLY(add_exactly, REAL)

DEFINE_WEIGHT_SUM(weight_sum, REAL, exp, FINDS_D)

/* A row and the keys of its head. */
typedef struct row {
    sequence s;
    int b, h;
    pair_row at;
    clattn_i64 query_at, dout_at; /* first element of the row */
    kv_rows keys, values;
    REAL lse, d, rest;
} row;

/* What a row and a key that it sees have: p, that after dropout, dS, dZ, dot(query, key). */
typedef struct pair {
    REAL p, weight, ds, dz, dot;
} pair;

static inline size_t plane_row(const clattn_params *p, int b, int h, int i)
{
    return ((size_t)b * p->query_heads + h) * p->query_len + i;
}

static inline void find_keys(const clattn_params *p, const attention_buffers *in, row *r)
{
    const int kv_head = r->h / (p->query_heads / p->kv_heads);
    r->keys = key_rows_of(p, in, &r->s, r->b, kv_head);
    r->values = value_rows_of(p, in, &r->s, r->b, kv_head);
}

static inline row find_head(const clattn_params *p, const attention_buffers *in, int b, int h)
{
    row r;
    r.s = sequence_of(p, in, b);
    r.b = b;
    r.h = h;
    find_keys(p, in, &r);
    return r;
}

static inline void go_to_row(const clattn_params *p, const attention_buffers *in,
                             const clattn_input_place *dout_place, __global const REAL *workspace, row *r, int i)
{
    const size_t at = ROW_TERMS * plane_row(p, r->b, r->h, i);
    if (PAGED || LISTED) {
        narrow_to_rows(p, in, &r->s, r->b, r->h, 1, i, i);
        find_keys(p, in, r);
    }
    r->at = pair_row_of(p, in, &r->s, r->b, r->h, i);
    r->query_at = query_row_at(p, &r->s, r->b, r->h, i);
    r->dout_at = dout_row_at(dout_place, &r->s, r->b, r->h, i);
    r->lse = workspace[at + TERM_LSE];
    r->d = workspace[at + TERM_D];
    r->rest = workspace[at + TERM_REST];
}

/* 0: the row does not see the key. slack: the derivative of what changes scores. */
static inline int find_logit(const clattn_params *p, const attention_buffers *in, const row *r, int j, REAL *dot,
                             REAL *slack, REAL *logit)
{
    const int key = key_at_place(&r->s, j);
    if (!key_allowed(p, in, &r->s, &r->at, key)) {
        return 0;
    }
    const clattn_i64 key_at = kv_row(&r->keys, j);
    REAL total = 0, sum = 0;
    for (int c = 0; c < p->head_dim; ++c) {
        end_column_run_before(c, p->head_dim, &total, &sum);
        sum = FMA(LOAD(in->query, r->query_at + c * STRIDE(query, 3)),
                  KEY_LOAD(in->key, key_at + c * r->keys.column), sum);
    }
    *dot = total + sum;
    *logit = *dot * PARAM_REAL(p, scale);
    const pair_place place = place_of_pair(&r->s, &r->at, key);
    *slack = HAS_ANY(CHANGING) ? score_slope(p, in, &place, *logit) : 1;
    return finish_logit(p, in, &r->s, &r->at, key, logit);
}

static inline int weight_is_kept(const clattn_params *p, const row *r, int j)
{
    return dropout_keeps(p, r->b, r->h, r->at.i, key_at_place(&r->s, j));
}

/* dot(dout, value), after dropout. */
static inline REAL find_product(const clattn_params *p, const attention_buffers *in,
                                const clattn_input_place *dout_place, __global const ELEMENT_OUT *dout, const row *r,
                                int j)
{
    const clattn_i64 value_at = kv_row(&r->values, j);
    REAL total = 0, sum = 0;
    for (int c = 0; c < p->head_dim_v; ++c) {
        end_column_run_before(c, p->head_dim_v, &total, &sum);
        sum = FMA(OUT_LOAD(dout, r->dout_at + c * dout_place->stride[3]),
                  VALUE_LOAD(in->value, value_at + c * r->values.column), sum);
    }
    REAL dot = total + sum;
    if (HAS(DROPOUT)) {
        dot = weight_is_kept(p, r, j) ? dot * PARAM_REAL(p, keep_scale) : 0;
    }
    return dot;
}

/* 0: the row does not see the key, or adds nothing. */
static inline int find_pair(const clattn_params *p, const attention_buffers *in, __global const ELEMENT_OUT *dout,
                            const clattn_input_place *dout_place, const row *r, int j, pair *result)
{
    REAL logit, slack;
    if (r->lse == (REAL)INFINITY || !find_logit(p, in, r, j, &result->dot, &slack, &logit)) {
        return 0;
    }
    result->p = exp((logit - r->lse) - r->rest);
    result->weight = result->p;
    if (HAS(DROPOUT)) {
        result->weight = weight_is_kept(p, r, j) ? result->p * PARAM_REAL(p, keep_scale) : 0;
    }
    result->ds = result->p * (find_product(p, in, dout_place, dout, r, j) - r->d);
    result->dz = result->ds * slack;
    return 1;
}

/* find_pair of a key by its number. */
static inline int find_pair_of_key(const clattn_params *p, const attention_buffers *in,
                                   __global const ELEMENT_OUT *dout, const clattn_input_place *dout_place, const row *r,
                                   int j, pair *result)
{
    const int place = LISTED ? place_in_list(&r->s.list, j) : j;
    return place >= 0 && find_pair(p, in, dout, dout_place, r, place, result);
}

static inline REAL distance_of(const row *r, int j)
{
    return fabs((REAL)(r->at.i + r->s.offset - key_at_place(&r->s, j)));
}

/* The rest of the row's lse, and its D, by the terms that are there. */
static inline void find_terms(const clattn_params *p, const attention_buffers *in, const row_inputs *row_in,
                              const row *r, __global REAL *terms)
{
    sequence s = r->s;
    weight_sum total;
    begin_weight_sum(&total);
    narrow_to_rows(p, in, &s, r->b, r->h, 1, r->at.i, r->at.i);
    for (int j = key_low(p, &s, r->at.i); j < key_high(p, &s, r->at.i); ++j) {
        REAL dot, slack, logit;
        if (find_logit(p, in, r, j, &dot, &slack, &logit)) {
            const REAL difference = logit - r->lse;
            const REAL by = FINDS_D ? find_product(p, in, &row_in->dout_place, row_in->dout, r, j) : 0;
            add_to_weight_sum(&total, &difference, &by, 1);
        }
    }
    store_found_terms(p, in, row_in, &r->s, r->b, r->h, r->at.i, total.most, total.weights + total.weights_lost,
                      total.products + total.products_lost, terms);
}

/* rests_from: of those rows whose lse is beyond it what rounding took is found again. */
__kernel LEAST_SUB_GROUP void row_terms(BACKWARD_ARGUMENTS, float rests_from, int first_row, int first_plane)
{
    BACKWARD_INPUTS(p, in);
    ROW_INPUTS(p);
    const int i = first_row + (int)get_global_id(0), plane = first_plane + (int)get_global_id(2);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    if (i >= p->query_len) {
        return;
    }
    row r = find_head(p, &in, b, h);
    __global REAL *terms = workspace + ROW_TERMS * plane_row(p, b, h, i);
    store_row_terms(p, &in, &row_in, &r.s, b, h, i, terms);
    if (lse_has_rest(terms[TERM_LSE], rests_from)) {
        go_to_row(p, &in, &dout_place, workspace, &r, i);
        find_terms(p, &in, &row_in, &r, terms);
    }
}

__kernel LEAST_SUB_GROUP void dquery(BACKWARD_ARGUMENTS, int first_row, int first_plane)
{
    BACKWARD_INPUTS(p, in);
    GRADIENT_OUTPUT(p);
    const int i = first_row + (int)get_global_id(0), column = (int)get_global_id(1) * COLUMNS;
    const int plane = first_plane + (int)get_global_id(2), b = plane / p->query_heads, h = plane % p->query_heads;
    row r = find_head(p, &in, b, h);
    if (i >= r.s.query_len) {
        return;
    }
    const int columns = min(COLUMNS, p->head_dim - column);
    go_to_row(p, &in, &dout_place, workspace, &r, i);
    narrow_to_rows(p, &in, &r.s, b, h, 1, i, i);
    const int low = key_low(p, &r.s, i), high = key_high(p, &r.s, i);
    REAL total[COLUMNS] = { 0 }, rest[COLUMNS] = { 0 };
    for (int start = low; start < high; start += BLOCK) {
        REAL sums[COLUMNS] = { 0 };
        for (int j = start; j < min(start + BLOCK, high); ++j) {
            pair found;
            if (!find_pair(p, &in, dout, &dout_place, &r, j, &found)) {
                continue;
            }
            const clattn_i64 at = kv_row(&r.keys, j) + column * r.keys.column;
            FOR_COLUMNS
            {
                if (c < columns) {
                    sums[c] = FMA(found.dz, KEY_LOAD(in.key, at + c * r.keys.column), sums[c]);
                }
            }
        }
        FOR_COLUMNS { add_exactly(&total[c], &rest[c], sums[c]); }
    }
    FOR_COLUMNS
    {
        if (c < columns) {
            store_gradient(&place, gradient, place_at(&place, b, h, r.s.query_row + i, column + c),
                           (total[c] + rest[c]) * PARAM_REAL(p, scale));
        }
    }
}

/* of_value: dvalue; else dkey. */
__kernel LEAST_SUB_GROUP void dkey_dvalue(BACKWARD_ARGUMENTS, int of_value, int first_key, int first_plane)
{
    BACKWARD_INPUTS(p, in);
    GRADIENT_OUTPUT(p);
    const int j = first_key + (int)get_global_id(0), column = (int)get_global_id(1) * COLUMNS;
    const int plane = first_plane + (int)get_global_id(2), b = plane / p->kv_heads, kv_head = plane % p->kv_heads;
    const int group = p->query_heads / p->kv_heads;
    const int columns = min(COLUMNS, (of_value ? p->head_dim_v : p->head_dim) - column);
    const sequence s = sequence_of(p, &in, b);
    if (j >= s.stored_len) {
        return;
    }
    const int first = HAS(CAUSAL) ? (int)clamp(j - s.offset, (clattn_i64)0, (clattn_i64)max(s.query_len, 0)) : 0;
    REAL total[COLUMNS] = { 0 }, rest[COLUMNS] = { 0 };
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        row r = find_head(p, &in, b, h);
        for (int start = first; start < s.query_len; start += BLOCK) {
            REAL sums[COLUMNS] = { 0 };
            for (int i = start; i < min(start + BLOCK, s.query_len); ++i) {
                pair found;
                go_to_row(p, &in, &dout_place, workspace, &r, i);
                if (!find_pair_of_key(p, &in, dout, &dout_place, &r, j, &found)) {
                    continue;
                }
                const REAL factor = of_value ? found.weight : found.dz;
                const clattn_i64 step = of_value ? dout_place.stride[3] : STRIDE(query, 3);
                clattn_i64 at = (of_value ? r.dout_at : r.query_at) + column * step;
                FOR_COLUMNS
                {
                    if (c < columns) {
                        sums[c] = FMA(factor, of_value ? OUT_LOAD(dout, at) : LOAD(in.query, at), sums[c]);
                    }
                    at += step;
                }
            }
            FOR_COLUMNS { add_exactly(&total[c], &rest[c], sums[c]); }
        }
    }
    FOR_COLUMNS
    {
        if (c < columns) {
            store_gradient(&place, gradient, place_at(&place, b, kv_head, s.key_row + j, column + c),
                           (total[c] + rest[c]) * (of_value ? 1 : PARAM_REAL(p, scale)));
        }
    }
}

/* How many indices of an axis one element is the sum of. */
#define ALONG(axis, count) (place.stride[axis] == 0 ? (count) : 1)

__kernel LEAST_SUB_GROUP void dbias(BACKWARD_ARGUMENTS, int first_key, int first_plane)
{
    BACKWARD_INPUTS(p, in);
    GRADIENT_OUTPUT(p);
    const int heads = place.stride[1] == 0 ? 1 : p->query_heads;
    const int j = first_key + (int)get_global_id(0), i = (int)get_global_id(1);
    const int plane = first_plane + (int)get_global_id(2), b = plane / heads, h = plane % heads;
    if (j >= (place.stride[3] == 0 ? 1 : p->bias_key_len)) {
        return;
    }
    REAL total = 0, rest = 0;
    for (int batch = b; batch < b + ALONG(0, p->batch); ++batch) {
        for (int head = h; head < h + ALONG(1, p->query_heads); ++head) {
            row r = find_head(p, &in, batch, head);
            const int rows = min(i + ALONG(2, p->query_len), r.s.query_len);
            for (int at = i; at < rows; ++at) {
                go_to_row(p, &in, &dout_place, workspace, &r, at);
                for (int key = j; key < j + ALONG(3, p->bias_key_len); ++key) {
                    pair found;
                    const int sees = find_pair_of_key(p, &in, dout, &dout_place, &r, key, &found);
                    add_exactly(&total, &rest, sees ? found.ds : 0);
                }
            }
        }
    }
    store_gradient(&place, gradient, place_at(&place, b, h, i, j), total + rest);
}

static inline int row_blocks(const clattn_params *p)
{
    return (p->query_len + BLOCK - 1) / BLOCK;
}

/* Behind the terms of all rows: BLOCK_SUMS for each block of rows of each plane. */
static inline size_t block_sums_at(const clattn_params *p, int plane, int block)
{
    return ROW_TERMS * (size_t)p->batch * p->query_heads * p->query_len +
           BLOCK_SUMS * ((size_t)plane * row_blocks(p) + block);
}

__kernel LEAST_SUB_GROUP void row_sums(BACKWARD_ARGUMENTS, int first_block, int first_plane)
{
    BACKWARD_INPUTS(p, in);
    const int block = first_block + (int)get_global_id(0), plane = first_plane + (int)get_global_id(2);
    if (block >= row_blocks(p)) {
        return;
    }
    row r = find_head(p, &in, plane / p->query_heads, plane % p->query_heads);
    REAL of_slope = 0, of_scale = 0;
    for (int i = block * BLOCK; i < min((block + 1) * BLOCK, r.s.query_len); ++i) {
        REAL row_slope = 0, row_scale = 0, slope_rest = 0, scale_rest = 0;
        go_to_row(p, &in, &dout_place, workspace, &r, i);
        for (int j = 0; j < key_high(p, &r.s, i); ++j) {
            pair found;
            if (find_pair(p, &in, dout, &dout_place, &r, j, &found)) {
                add_exactly(&row_slope, &slope_rest, found.ds * distance_of(&r, j));
                add_exactly(&row_scale, &scale_rest, found.dz * found.dot);
            }
        }
        of_slope -= row_slope + slope_rest;
        of_scale += row_scale + scale_rest;
    }
    const size_t at = block_sums_at(p, plane, block);
    workspace[at] = of_slope;
    workspace[at + 1] = of_scale;
}

#include "backward/plain_sums.clh"

__kernel LEAST_SUB_GROUP void head_sums(BACKWARD_ARGUMENTS, int kind, int first_head, int first_batch)
{
    BACKWARD_INPUTS(p, in);
    GRADIENT_OUTPUT(p);
    const int h = first_head + (int)get_global_id(0), b = first_batch + (int)get_global_id(2);
    if (h >= (place.stride[1] == 0 ? 1 : p->query_heads)) {
        return;
    }
    REAL total = 0, rest = 0;
    for (int batch = b; batch < b + ALONG(0, p->batch); ++batch) {
        for (int head = h; head < h + ALONG(1, p->query_heads); ++head) {
            add_exactly(&total, &rest,
                        kind == SUMS_SINKS ? sum_of_sink(p, &in, workspace, batch, head)
                                           : sum_of_blocks(p, &in, workspace, kind, batch, head));
        }
    }
    store_gradient(&place, gradient, place_at(&place, b, h, 0, 0), total + rest);
}
