/* One row of the formula in clattn_backward.h after the other: what the row and each of its keys have, then what the
 * pair adds to each gradient, with the magnitudes that the error bound is made of (docs/numbers.md):
 *
 *     W_ij = sqrt(max(d, dv)) (1 + A_ij + Abar_i) + |lse_i| + sqrt(n_i) + 8     Wb_i: with Abar_i for A_ij */
#include "reference/reference_backward.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "cl/backward/backward_plain_layout.h"
#include "cl/forward/forward_params.h"
#include "reference/pair_logit.h"
#include "reference/stored_rows.h"
#include "reference/user_pairs.h"

/* What one key is to the row. */
struct pair {
    struct pair_logit score;
    long double p, weight, value_dot; /* weight: after dropout; value_dot: dout . value */
    double value_size;                /* of magnitudes, after dropout */
};

struct work {
    const struct backward_problem *problem;
    const struct call *call;
    struct backward_detail *detail;
    struct sequence sequence;
    int64_t b, h, i;
    double least, *query, *dout; /* what exp may flush to zero; a row of each */
    double *keys, *values;       /* all rows of a key/value head: conversions of 16 bits take longer than sums */
    long double *out, *mixed;    /* of the row; sum_j |weight value|, later sum_j f p key */
    unsigned char *kept;
    struct pair *pairs; /* [stored_keys], as kept, */
    int64_t seen;       /* of which so many are seen */
    long double lse, d, e, mean_magnitude, sink;
};

static void *allocate(int64_t count, size_t element_bytes)
{
    return calloc((size_t)count + 1, element_bytes);
}

static void work_free(struct work *w)
{
    void *const parts[] = { w->query, w->dout, w->keys, w->values, w->out, w->mixed, w->kept, w->pairs };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
        free(parts[i]);
    }
}

static clattn_status work_allocate(struct work *w)
{
    const clattn_problem *p = &w->problem->attention.p;
    const int64_t columns = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v, keys = w->call->key_len;
    w->query = allocate(p->head_dim, sizeof(double));
    w->dout = allocate(p->head_dim_v, sizeof(double));
    w->keys = allocate(keys, (size_t)p->head_dim * sizeof(double));
    w->values = allocate(keys, (size_t)p->head_dim_v * sizeof(double));
    w->out = allocate(p->head_dim_v, sizeof(long double));
    w->mixed = allocate(columns, sizeof(long double));
    w->kept = allocate(keys, 1);
    w->pairs = allocate(keys, sizeof(struct pair));
    return w->query && w->dout && w->keys && w->values && w->out && w->mixed && w->kept && w->pairs
               ? CLATTN_OK
               : error_set(CLATTN_OUT_OF_HOST_MEMORY, "reference: no memory for a row of gradients");
}

static double load(const struct work *w, int id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const struct tensor_place *place = &w->call->operands.tensor[id];
    const clattn_type type = w->call->operands.element[operation_backward.rows[id].element];
    return type_load(type, place->data, place_index(place, b, h, i, c));
}

static int64_t kv_head(const struct work *w)
{
    return w->h / problem_group(&w->problem->attention.p);
}

static void load_keys_and_values(const struct work *w)
{
    const clattn_problem *p = &w->problem->attention.p;
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        const struct stored_place place = { &w->problem->attention, w->call, &w->sequence, w->b, kv_head(w), j };
        load_stored_row(&place, TENSOR_KEY, p->head_dim, w->keys + j * p->head_dim);
        load_stored_row(&place, TENSOR_VALUE, p->head_dim_v, w->values + j * p->head_dim_v);
    }
}

/* ---- what a row has ------------------------------------------------------------------------------ */

static void find_pairs(struct work *w)
{
    const struct problem *problem = &w->problem->attention;
    w->seen = 0;
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        struct pair *pair = &w->pairs[j];
        const struct user_pair at = { problem, w->call, &w->sequence, w->b, w->h, w->i, j };
        find_pair_logit(&at, w->query, w->keys + j * problem->p.head_dim, 1, &pair->score);
        if (pair->score.allowed) {
            const double *value = w->values + j * problem->p.head_dim_v;
            pair->value_dot = pair->value_size = 0;
            for (int64_t c = 0; c < problem->p.head_dim_v; ++c) {
                pair->value_dot += (long double)w->dout[c] * value[c];
                pair->value_size += fabs(w->dout[c] * value[c]);
            }
        }
        w->seen += pair->score.allowed;
    }
    if (problem->p.dropout > 0) {
        dropout_of_row(problem, w->call, w->b, w->h, w->i, w->sequence.stored_keys, w->kept);
    }
}

static long double own_lse(const struct work *w)
{
    const int has_sink = (w->problem->attention.flags & CLATTN_FLAG_SINKS) != 0;
    long double most = has_sink ? w->sink : -(long double)INFINITY, sum = 0;
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        most = w->pairs[j].score.allowed && !(w->pairs[j].score.logit <= most) ? w->pairs[j].score.logit : most;
    }
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        sum += w->pairs[j].score.allowed ? expl(w->pairs[j].score.logit - most) : 0;
    }
    return most + logl(sum + (has_sink ? expl(w->sink - most) : 0));
}

/* The caller's lse, rounded to float32; where the row's own differs by no more, that (cl/backward/lse_rest.clh). */
static long double find_lse(const struct work *w, int64_t b, int64_t row)
{
    const long double own = own_lse(w), given = w->detail->own_forward ? own : load(w, TENSOR_LSE, b, w->h, row, 0);
    const int is_double = w->problem->attention.p.type == CLATTN_FLOAT64;
    return fabsl(own - given) <= LSE_REST_MOST(is_double ? 8 : 4) * fabsl(given) ? own : given;
}

static void weigh(struct work *w)
{
    const long double keep = 1 / (1 - (long double)w->problem->attention.p.dropout);
    long double sum = 0, weighted = 0;
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        struct pair *pair = &w->pairs[j];
        if (pair->score.allowed) {
            const int kept = w->problem->attention.p.dropout > 0 ? w->kept[j] : 1;
            pair->p = expl(pair->score.logit - w->lse);
            pair->weight = kept ? keep * pair->p : 0;
            pair->value_dot = kept ? keep * pair->value_dot : 0;
            pair->value_size = kept ? (double)keep * pair->value_size : 0;
            sum += pair->p;
            weighted += pair->p > 0 ? pair->p * pair->score.magnitude : 0; /* 0 * inf is NaN */
        }
    }
    const int has_sink = (w->problem->attention.flags & CLATTN_FLAG_SINKS) != 0;
    w->mean_magnitude = (sum > 0 ? weighted / sum : 0) + (has_sink ? expl(w->sink - w->lse) * fabsl(w->sink) : 0);
}

/* The row's out, D, and e_i = sum_c |dout_c| sum_j weight |value_c| + |dlse|. */
static void find_d(struct work *w)
{
    const int64_t columns = w->problem->attention.p.head_dim_v;
    const int64_t b = w->problem->attention.flags & CLATTN_FLAG_VARLEN ? 0 : w->b, row = w->sequence.query_row + w->i;
    const long double dlse = w->problem->p.features & CLATTN_WITH_DLSE ? load(w, GRADIENT_DLSE, b, w->h, row, 0) : 0;
    memset(w->out, 0, (size_t)columns * sizeof(*w->out));
    memset(w->mixed, 0, (size_t)columns * sizeof(*w->mixed));
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        if (w->pairs[j].score.allowed) {
            const double *value = w->values + j * columns;
            for (int64_t c = 0; c < columns; ++c) {
                w->out[c] += w->pairs[j].weight * value[c];
                w->mixed[c] += w->pairs[j].weight * fabs(value[c]);
            }
        }
    }
    w->d = -dlse;
    w->e = fabsl(dlse);
    for (int64_t c = 0; c < columns; ++c) {
        const long double out = w->detail->own_forward ? w->out[c] : load(w, TENSOR_OUT, b, w->h, row, c);
        w->d += out != 0 ? w->dout[c] * out : 0; /* of a row without keys, whatever its dout is */
        w->e += out != 0 || w->mixed[c] > 0 ? fabsl(w->dout[c] * (fabsl(out) > w->mixed[c] ? out : w->mixed[c])) : 0;
    }
}

/* 0: the row adds nothing. It may have an lse where it sees no key, of its sink or of keys that are elsewhere, and so a
 * share of the sink. */
static int find_row(struct work *w)
{
    const clattn_problem *p = &w->problem->attention.p;
    const int64_t b = w->problem->attention.flags & CLATTN_FLAG_VARLEN ? 0 : w->b, row = w->sequence.query_row + w->i;
    load_row(w->call, TENSOR_QUERY, b, w->h, row, p->head_dim, w->query);
    load_row(w->call, GRADIENT_DOUT, b, w->h, row, p->head_dim_v, w->dout);
    find_pairs(w);
    w->sink = w->problem->attention.flags & CLATTN_FLAG_SINKS ? load(w, TENSOR_SINKS, 0, w->h, 0, 0) : 0;
    w->lse = find_lse(w, b, row);
    if (w->lse == -(long double)INFINITY || (w->seen == 0 && isnan(w->lse))) {
        return 0;
    }
    weigh(w);
    find_d(w);
    return 1;
}

/* ---- what a row adds ----------------------------------------------------------------------------- */

/* sqrt(max(d, dv)) (1 + magnitude + Abar) + |lse| + 8, and sqrt(n) where it is not counted otherwise. */
static double factor_of(const struct work *w, long double magnitude)
{
    const clattn_problem *p = &w->problem->attention.p;
    const double root = sqrt((double)(p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v));
    return root * (double)(1 + magnitude + w->mean_magnitude) + (double)fabsl(w->lse) + 8;
}

static int wants(const struct work *w, int id)
{
    return w->detail->sums[id].place != NULL;
}

/* The sum of column 0 of a row of dquery, dkey or dvalue; NULL: not asked for. */
static struct gradient_sum *first_sum(const struct work *w, int id, int64_t head, int64_t row)
{
    const int64_t pack = w->problem->attention.p.features & CLATTN_WITH_VARLEN ? 0 : w->b;
    return wants(w, id) ? gradient_sum_of(&w->detail->sums[id], pack, head, row, 0) : NULL;
}

static void add_pair(struct work *w, int64_t j)
{
    const clattn_problem *p = &w->problem->attention.p;
    const struct pair *pair = &w->pairs[j];
    struct gradient_sums *sums = w->detail->sums;
    const int64_t row = w->sequence.query_row + w->i, key_row = w->sequence.key_row + j, group = kv_head(w);
    const long double ds = pair->p * (pair->value_dot - w->d), dz = ds * pair->score.slack, scale = w->call->scale;
    const double short_factor = factor_of(w, pair->score.magnitude), factor = short_factor + sqrt((double)w->seen);
    const double size = pair->value_size + (double)w->e, ds_size = (double)pair->p * size;
    const double dz_size = ds_size * (double)(fabsl(pair->score.slack) + pair->score.loose / factor);
    const long double share = (long double)dz_size / (size > 0 ? size : 1);
    const double distance = fabs((double)(w->i + w->sequence.offset - j)), lost = w->least, kept = 1 / (1 - p->dropout);
    const double *key = w->keys + j * p->head_dim;
    struct gradient_sum *dquery = first_sum(w, GRADIENT_DQUERY, w->h, row);
    struct gradient_sum *dkey = first_sum(w, GRADIENT_DKEY, group, key_row);
    struct gradient_sum *dvalue = first_sum(w, GRADIENT_DVALUE, group, key_row);
    for (int64_t c = 0; c < p->head_dim; ++c) {
        if (dquery) { /* its unit has the row's sqrt(n) once */
            const long double scaled = scale * key[c];
            const double by = (double)fabsl(scaled);
            gradient_sum_add(&dquery[c * sums[GRADIENT_DQUERY].place->stride[3]], dz * scaled, dz_size * by,
                             short_factor, lost * (size * by + 1));
        }
        if (dkey) {
            const long double scaled = scale * w->query[c];
            const double by = (double)fabsl(scaled);
            gradient_sum_add(&dkey[c * sums[GRADIENT_DKEY].place->stride[3]], dz * scaled, dz_size * by, factor,
                             lost * (size * by + 1));
        }
        w->mixed[c] += share * key[c];
    }
    for (int64_t c = 0; c < p->head_dim_v && dvalue; ++c) {
        const double by = fabs(w->dout[c]);
        gradient_sum_add(&dvalue[c * sums[GRADIENT_DVALUE].place->stride[3]], pair->weight * w->dout[c],
                         (double)pair->weight * by, factor, lost * (by + 1) * kept);
    }
    if (wants(w, GRADIENT_DBIAS)) {
        gradient_sum_add(gradient_sum_of(&sums[GRADIENT_DBIAS], w->b, w->h, w->i, j), ds, ds_size, factor,
                         lost * (size + 1));
    }
    if (wants(w, GRADIENT_DSLOPES)) {
        gradient_sum_add(gradient_sum_of(&sums[GRADIENT_DSLOPES], w->b, w->h, 0, 0), -ds * distance, ds_size * distance,
                         factor, lost * (size * distance + 1));
    }
    if (wants(w, GRADIENT_DSCALE)) {
        gradient_sum_add(gradient_sum_of(&sums[GRADIENT_DSCALE], 0, 0, 0, 0), dz * pair->score.dot,
                         dz_size * (double)pair->score.dot_size, factor,
                         lost * (size * (double)pair->score.dot_size + 1));
    }
}

/* What errors of lse and D do to all of a row's pairs at once. */
static void add_common(struct work *w)
{
    const clattn_problem *p = &w->problem->attention.p;
    const int64_t pack = p->features & CLATTN_WITH_VARLEN ? 0 : w->b, row = w->sequence.query_row + w->i;
    const double factor = factor_of(w, w->mean_magnitude), root = sqrt((double)w->seen);
    for (int64_t c = 0; c < p->head_dim && wants(w, GRADIENT_DQUERY); ++c) {
        struct gradient_sum *sum = gradient_sum_of(&w->detail->sums[GRADIENT_DQUERY], pack, w->h, row, c);
        const long double shared = fabsl((long double)w->call->scale * w->e * w->mixed[c]);
        sum->common = (factor + root) * (double)shared + (factor - 8) * (double)fabsl(sum->sum);
    }
    if (wants(w, GRADIENT_DSINKS) && !isnan(w->lse)) {
        const long double share = expl(w->sink - w->lse);
        gradient_sum_add(gradient_sum_of(&w->detail->sums[GRADIENT_DSINKS], 0, w->h, 0, 0), -share * w->d,
                         (double)(share * w->e), factor + root + (double)fabsl(w->sink), w->least * ((double)w->e + 1));
    }
}

static void add_row(struct work *w)
{
    if (!find_row(w)) {
        return;
    }
    memset(w->mixed, 0, (size_t)w->problem->attention.p.head_dim * sizeof(*w->mixed));
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        if (w->pairs[j].score.allowed) {
            add_pair(w, j);
        }
    }
    add_common(w);
}

/* ---- the whole ----------------------------------------------------------------------------------- */

clattn_status reference_backward_detail(const struct backward_problem *problem, const struct call *call,
                                        struct backward_detail *detail)
{
    const clattn_problem *p = &problem->attention.p;
    struct work w = { .problem = problem, .call = call, .detail = detail };
    clattn_status status = user_pairs_check(&problem->attention, 1);
    memset(detail->sums, 0, sizeof(detail->sums));
    w.least = 2 * (p->type == CLATTN_FLOAT64 ? DBL_MIN : (double)FLT_MIN);
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        if (operand_is_written(&call->operands, id)) {
            status = gradient_sums_create(&detail->sums[id], &call->operands, id);
        }
    }
    status = status == CLATTN_OK && problem_has_rows(p, call->query_len) ? work_allocate(&w) : status;
    for (w.b = 0; w.b < p->batch && problem_has_rows(p, call->query_len) && status == CLATTN_OK; ++w.b) {
        w.sequence = sequence_of(&problem->attention, call, w.b);
        for (w.h = 0; w.h < p->query_heads; ++w.h) {
            if (w.h % problem_group(p) == 0) {
                load_keys_and_values(&w);
            }
            for (w.i = 0; w.i < w.sequence.query_len; ++w.i) {
                add_row(&w);
            }
        }
    }
    work_free(&w);
    if (status != CLATTN_OK) {
        backward_detail_free(detail);
    }
    return status;
}

void backward_detail_free(struct backward_detail *detail)
{
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT; ++id) {
        gradient_sums_free(&detail->sums[id]);
    }
}

clattn_status reference_backward(const struct any_problem *problem, const struct operands *operands)
{
    struct backward_detail detail = { .own_forward = 0 };
    const struct call *call = attention_call(operands);
    clattn_status status = reference_backward_detail(backward_problem(problem), call, &detail);
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        if (detail.sums[id].place) {
            gradient_sums_write(&detail.sums[id], &call->operands, id);
        }
    }
    backward_detail_free(&detail);
    return status;
}
