/* One row of attention after the other, in the order of the formula in clattn.h:
 *
 *     scores -> softcap -> the user's score -> bias, slopes, masks -> softmax -> dropout -> sum of values
 *
 * Sums are in long double, so that results can be held against float64 storage too (where long double
 * is not wider than double, to double's own accuracy). */
#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/stored_types.h"
#include "cl/forward/forward_params.h"
#include "reference/score_terms.h"
#include "reference/stored_rows.h"
#include "reference/user_pairs.h"

/* The memory of one call: what is loaded, and the row that is being computed. */
struct work {
    const struct problem *problem;
    const struct call *call;
    const struct reference_detail *detail; /* NULL: the call's own outputs are written */
    struct sequence sequence;
    int64_t b, h, i;

    double *query; /* [head_dim] */
    double *key;   /* [stored_keys, head_dim] of the key/value head */
    double *value; /* [stored_keys, head_dim_v] */
    int64_t loaded_b, loaded_kv_head;

    unsigned char *allowed;    /* [stored_keys], as the next three */
    unsigned char *kept;       /* by dropout */
    long double *score;        /* turns into the logit, then the weight */
    long double *magnitude;    /* A_ij */
    long double *out, *spread; /* [head_dim_v] */
    long double lse, row_magnitude;
    int64_t allowed_keys;
};

static void *allocate(int64_t count, int64_t columns, int64_t element_bytes)
{
    int64_t bytes;
    if (!checked_multiply(count, columns, &bytes) || !checked_multiply(bytes, element_bytes, &bytes) ||
        (uint64_t)bytes > SIZE_MAX) {
        return NULL;
    }
    return calloc(bytes ? (size_t)bytes : 1, 1);
}

static void work_free(struct work *work)
{
    free(work->query);
    free(work->key);
    free(work->value);
    free(work->allowed);
    free(work->kept);
    free(work->score);
    free(work->magnitude);
    free(work->out);
    free(work->spread);
}

static clattn_status work_allocate(struct work *work)
{
    const clattn_problem *p = &work->problem->p;
    int64_t keys = work->call->key_len, wide = (int64_t)sizeof(long double);
    work->query = allocate(1, p->head_dim, sizeof(double));
    work->key = allocate(keys, p->head_dim, sizeof(double));
    work->value = allocate(keys, p->head_dim_v, sizeof(double));
    work->allowed = allocate(keys, 1, 1);
    work->kept = allocate(keys, 1, 1);
    work->score = allocate(keys, 1, wide);
    work->magnitude = allocate(keys, 1, wide);
    work->out = allocate(1, p->head_dim_v, wide);
    work->spread = allocate(1, p->head_dim_v, wide);
    work->loaded_b = work->loaded_kv_head = -1;
    if (!work->query || !work->key || !work->value || !work->allowed || !work->kept || !work->score ||
        !work->magnitude || !work->out || !work->spread) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "reference: no memory for the keys and values of one head");
    }
    return CLATTN_OK;
}

static void load_inputs(struct work *work)
{
    const clattn_problem *p = &work->problem->p;
    int64_t kv_head = work->h / problem_group(p);
    load_row(work->call, TENSOR_QUERY, work->problem->flags & CLATTN_FLAG_VARLEN ? 0 : work->b, work->h,
             work->sequence.query_row + work->i, p->head_dim, work->query);
    if (work->loaded_b == work->b && work->loaded_kv_head == kv_head) {
        return;
    }
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        const struct stored_place place = { work->problem, work->call, &work->sequence, work->b, kv_head, j };
        load_stored_row(&place, TENSOR_KEY, p->head_dim, work->key + j * p->head_dim);
        load_stored_row(&place, TENSOR_VALUE, p->head_dim_v, work->value + j * p->head_dim_v);
    }
    work->loaded_b = work->b;
    work->loaded_kv_head = kv_head;
}

/* Element `column` of row (b, h, i) in a dense tensor of the detail. */
static int64_t dense_index(const struct work *work, int64_t columns, int64_t column)
{
    const clattn_problem *p = &work->problem->p;
    return ((work->b * p->query_heads + work->h) * work->call->query_len + work->i) * columns + column;
}

static void write_weight(const struct work *work, int64_t j, double value, double magnitude)
{
    const struct reference_detail *detail = work->detail;
    if (!detail) {
        const struct tensor_place *place = &work->call->operands.tensor[TENSOR_WEIGHTS];
        clattn_type type = work->problem->p.type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
        type_store(type, place->data, place_index(place, work->b, work->h, work->i, j), value);
        return;
    }
    int64_t index = dense_index(work, work->call->key_len, j);
    if (detail->weights) {
        detail->weights[index] = value;
    }
    if (detail->weights_magnitude) {
        detail->weights_magnitude[index] = magnitude;
    }
}

/* Writes what work->score holds now, if that is what was asked for; keys that do not exist for this
 * sequence, or all of a row past its end, get the value of a key that is hidden. */
static void record_weights(const struct work *work, clattn_weights stage)
{
    if (work->problem->p.weights != stage) {
        return;
    }
    double hidden = stage == CLATTN_WEIGHTS_LOGITS ? -(double)INFINITY : 0;
    int64_t keys = work->i < work->sequence.query_len ? work->sequence.stored_keys : 0;
    for (int64_t j = 0; j < work->call->key_len; ++j) {
        write_weight(work, j, j < keys ? (double)work->score[j] : hidden, j < keys ? (double)work->magnitude[j] : 0);
    }
}

/* scale * q.k of the keys that the row may see; where the caller wants the scores themselves, of all that are stored:
 * others have none, 0, also for a query that is not finite. */
static void compute_scores(struct work *work)
{
    const clattn_problem *p = &work->problem->p;
    int all = p->weights == CLATTN_WEIGHTS_SCORES || p->weights == CLATTN_WEIGHTS_SOFTCAP;
    long double scale = work->call->scale;
    const int64_t kv_head = work->h / problem_group(p);
    work->allowed_keys = 0;
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        work->allowed[j] =
            (unsigned char)key_is_allowed(work->problem, work->call, &work->sequence, work->b, work->h, work->i, j);
        work->allowed_keys += work->allowed[j];
        const int asked = all && key_is_stored(work->problem, work->call, &work->sequence, work->b, kv_head, j);
        long double dot = 0, magnitude = 0;
        for (int64_t d = 0; d < p->head_dim && (asked || work->allowed[j]); ++d) {
            long double product = (long double)work->query[d] * work->key[j * p->head_dim + d];
            dot += product;
            magnitude += fabsl(product);
        }
        work->score[j] = scale * dot;
        work->magnitude[j] = fabsl(scale) * magnitude;
    }
}

static void apply_softcap(struct work *work)
{
    long double softcap = work->problem->p.softcap;
    for (int64_t j = 0; j < work->sequence.stored_keys && softcap > 0; ++j) {
        work->score[j] = softcap * tanhl(work->score[j] / softcap);
    }
}

/* A score of -inf that the user's text returns hides the key. */
static void apply_user_score(struct work *work)
{
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        if (work->problem->flags & CLATTN_FLAG_SCORE_TEXT && work->allowed[j]) {
            const struct user_pair pair = { work->problem, work->call, &work->sequence, work->b, work->h, work->i, j };
            work->allowed[j] = user_pair_change(&pair, &work->score[j], &work->magnitude[j], NULL);
            work->allowed_keys -= work->allowed[j] ? 0 : 1;
        }
    }
}

static void apply_terms_and_masks(struct work *work)
{
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        if (!work->allowed[j]) {
            work->score[j] = -(long double)INFINITY;
            continue;
        }
        add_terms(work->problem, work->call, &work->sequence, work->b, work->h, work->i, j, &work->score[j],
                  &work->magnitude[j]);
    }
}

static double sink_of(const struct work *work)
{
    const struct tensor_place *place = &work->call->operands.tensor[TENSOR_SINKS];
    return type_load(work->problem->p.sinks_type, place->data, place_index(place, 0, work->h, 0, 0));
}

/* Logits to weights, lse, and the row's mean magnitude. A row that may see no key has weights 0, and lse -inf or the
 * sink. */
static void apply_softmax(struct work *work)
{
    int has_sink = (work->problem->flags & CLATTN_FLAG_SINKS) != 0;
    long double sink = has_sink ? sink_of(work) : 0;
    long double maximum = has_sink ? sink : -(long double)INFINITY;
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        if (work->allowed[j] && !(work->score[j] <= maximum)) {
            maximum = work->score[j];
        }
    }
    long double of_sink = has_sink ? expl(sink - maximum) : 0, of_keys = 0, weighted = 0;
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        work->score[j] = work->allowed[j] ? expl(work->score[j] - maximum) : 0;
        of_keys += work->score[j];
        weighted += work->score[j] > 0 ? work->score[j] * work->magnitude[j] : 0; /* 0 * inf is NaN */
    }
    if (work->allowed_keys == 0) {
        work->lse = maximum;
        work->row_magnitude = has_sink ? fabsl(sink) : 0;
        return;
    }
    long double sum = of_keys + of_sink;
    work->lse = maximum + logl(sum);
    const long double key_magnitude = of_keys > 0 ? weighted / of_keys : 0; /* all of the weight may be the sink's */
    work->row_magnitude = key_magnitude + (of_sink > 0 ? of_sink / sum * fabsl(sink) : 0);
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        work->score[j] /= work->allowed[j] ? sum : 1;
    }
}

/* Without the weight that made it small, the mean magnitude of the others may be larger. */
static void apply_dropout(struct work *work)
{
    const clattn_problem *p = &work->problem->p;
    long double kept_weight = 0, weighted = 0;
    if (p->dropout > 0) {
        dropout_of_row(work->problem, work->call, work->b, work->h, work->i, work->sequence.stored_keys, work->kept);
    }
    for (int64_t j = 0; j < work->sequence.stored_keys && p->dropout > 0; ++j) {
        work->score[j] = work->kept[j] ? work->score[j] / (1 - (long double)p->dropout) : 0;
        kept_weight += work->score[j];
        weighted += work->score[j] > 0 ? work->score[j] * work->magnitude[j] : 0;
    }
    if (kept_weight > 0 && weighted / kept_weight > work->row_magnitude) {
        work->row_magnitude = weighted / kept_weight;
    }
}

/* A hidden value is never read: 0 * NaN would be NaN. */
static void mix_values(struct work *work)
{
    int64_t columns = work->problem->p.head_dim_v;
    for (int64_t c = 0; c < columns; ++c) {
        work->out[c] = work->spread[c] = 0;
    }
    for (int64_t j = 0; j < work->sequence.stored_keys; ++j) {
        for (int64_t c = 0; c < columns && work->allowed[j]; ++c) {
            long double product = work->score[j] * work->value[j * columns + c];
            work->out[c] += product;
            work->spread[c] += fabsl(product);
        }
    }
}

static void write_outputs(const struct work *work)
{
    const clattn_problem *p = &work->problem->p;
    const struct tensor_place *out = &work->call->operands.tensor[TENSOR_OUT];
    const struct tensor_place *lse = &work->call->operands.tensor[TENSOR_LSE];
    int64_t b = work->problem->flags & CLATTN_FLAG_VARLEN ? 0 : work->b;
    int64_t row = work->sequence.query_row + work->i;
    for (int64_t c = 0; c < p->head_dim_v; ++c) {
        type_store(p->out_type, out->data, place_index(out, b, work->h, row, c), (double)work->out[c]);
    }
    if (work->problem->flags & CLATTN_FLAG_LSE) {
        ((float *)lse->data)[place_index(lse, b, work->h, row, 0)] = (float)work->lse;
    }
}

static void write_detail(const struct work *work)
{
    const struct reference_detail *detail = work->detail;
    int64_t columns = work->problem->p.head_dim_v, row = dense_index(work, 1, 0);
    for (int64_t c = 0; c < columns; ++c) {
        if (detail->out) {
            detail->out[row * columns + c] = (double)work->out[c];
        }
        if (detail->value_spread) {
            detail->value_spread[row * columns + c] = (double)work->spread[c];
        }
    }
    if (detail->lse) {
        detail->lse[row] = (double)work->lse;
    }
    if (detail->magnitude) {
        detail->magnitude[row] = (double)work->row_magnitude;
    }
    if (detail->allowed_keys) {
        detail->allowed_keys[row] = work->allowed_keys;
    }
}

static void compute_row(struct work *work)
{
    int exists = work->i < work->sequence.query_len;
    if (exists) {
        load_inputs(work);
        compute_scores(work);
    }
    record_weights(work, CLATTN_WEIGHTS_SCORES);
    if (exists) {
        apply_softcap(work);
    }
    record_weights(work, CLATTN_WEIGHTS_SOFTCAP);
    if (exists) {
        apply_user_score(work);
        apply_terms_and_masks(work);
    }
    record_weights(work, CLATTN_WEIGHTS_LOGITS);
    if (exists) {
        apply_softmax(work);
    }
    record_weights(work, CLATTN_WEIGHTS_SOFTMAX);
    if (exists) {
        apply_dropout(work);
        mix_values(work);
        (work->detail ? write_detail : write_outputs)(work);
    }
}

static clattn_status compute(const struct problem *problem, const struct call *call,
                             const struct reference_detail *detail)
{
    const clattn_problem *p = &problem->p;
    struct work work;
    memset(&work, 0, sizeof(work));
    work.problem = problem;
    work.call = call;
    work.detail = detail;
    if (!problem_has_rows(p, call->query_len)) {
        return CLATTN_OK;
    }
    clattn_status status = user_pairs_check(problem, 0);
    if (status == CLATTN_OK) {
        status = work_allocate(&work);
    }
    for (work.b = 0; work.b < p->batch && status == CLATTN_OK; ++work.b) {
        work.sequence = sequence_of(problem, call, work.b);
        for (work.h = 0; work.h < p->query_heads; ++work.h) {
            for (work.i = 0; work.i < call->query_len; ++work.i) {
                compute_row(&work);
            }
        }
    }
    work_free(&work);
    return status;
}

clattn_status reference_forward(const struct any_problem *problem, const struct operands *call)
{
    return compute(attention_problem(problem), attention_call(call), NULL);
}

clattn_status reference_forward_detail(const struct problem *problem, const struct call *call,
                                       const struct reference_detail *detail)
{
    return compute(problem, call, detail);
}
