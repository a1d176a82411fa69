/* Hidden units by matrices that know their errors; then row by row, each pair once: its tanh, its weight, its dS, and
 * what that adds to the sums over keys, over rows and over both; then products again. Errors of a pair's dS are counted
 * as those of attention's gradients (docs/numbers.md): a factor W times p (sum |dout value| + its mean). W has what
 * scores are off by too. Errors of lse and D are a whole row's: what they add to sums over its keys comes beside. */
#include "reference/reference_additive_backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "reference/gradient_sums.h"
#include "reference/numbers.h"
#include "reference/reference_additive.h"

#define TANH_UNITS 4 /* what tanh is off by, of its result */

enum matrix_id { QUERY, KEY, VALUE, DOUT, WQ, WK, QUERY_UNITS, KEY_UNITS, DQUERY_UNITS, DKEY_UNITS, MATRICES };
enum sums_id { OF_ROW, OF_KEYS, OF_VALUES, OF_SCORE, SUMS };

/* A row's pairs, an element a key, and its own figures. */
struct row {
    int64_t b, i;
    double *tanh; /* [keys][hidden_dim] */
    double *logit, *logit_unit, *p, *ds, *size, *factor;
    unsigned char *seen;
    double d_size, common; /* of D: the sum of its magnitudes; the factor of what all its pairs share */
};

struct work {
    const struct additive_backward_problem *problem;
    const clattn_additive_problem *p;
    const struct operands *operands;
    struct numbers matrix[MATRICES];
    struct gradient_sum *sums[SUMS]; /* of one row; [batch * keys][hidden]; [batch * keys][value]; [hidden] */
    double *score, *score_common;    /* squares of what rows share in dscore */
    struct row row;
};

/* ---- what is given ---------------------------------------------------------------------------- */

static clattn_status take(struct work *w, enum matrix_id to, int id, int64_t rows, int64_t columns)
{
    const struct tensor_place *place = &w->operands->tensor[id];
    const clattn_status status = numbers_create(&w->matrix[to], rows, columns);
    for (int64_t n = 0; n < rows * columns && status == CLATTN_OK; ++n) {
        w->matrix[to].value[n] = type_load(w->p->type, place->data, place->offset + n);
    }
    return status;
}

static clattn_status take_inputs(struct work *w)
{
    const clattn_additive_problem *p = w->p;
    const int64_t rows = p->batch * p->rows, keys = p->batch * p->keys;
    const struct {
        enum matrix_id to;
        int id;
        int64_t rows, columns;
    } inputs[] = {
        { QUERY, ADDITIVE_QUERY, rows, p->query_dim },    { KEY, ADDITIVE_KEY, keys, p->key_dim },
        { VALUE, ADDITIVE_VALUE, keys, p->value_dim },    { DOUT, ADDITIVE_DOUT, rows, p->value_dim },
        { WQ, ADDITIVE_WQ, p->hidden_dim, p->query_dim }, { WK, ADDITIVE_WK, p->hidden_dim, p->key_dim },
    };
    clattn_status status = CLATTN_OK;
    for (size_t n = 0; n < sizeof(inputs) / sizeof(inputs[0]) && status == CLATTN_OK; ++n) {
        status = take(w, inputs[n].to, inputs[n].id, inputs[n].rows, inputs[n].columns);
    }
    for (int id = QUERY_UNITS; id <= DKEY_UNITS && status == CLATTN_OK; ++id) {
        status = numbers_create(&w->matrix[id], id == QUERY_UNITS || id == DQUERY_UNITS ? rows : keys, p->hidden_dim);
    }
    if (status == CLATTN_OK) {
        numbers_multiply(w->matrix[QUERY], numbers_turned(w->matrix[WQ]), NULL, w->matrix[QUERY_UNITS]);
        numbers_multiply(w->matrix[KEY], numbers_turned(w->matrix[WK]), NULL, w->matrix[KEY_UNITS]);
    }
    return status;
}

static clattn_status allocate(struct work *w)
{
    const clattn_additive_problem *p = w->p;
    const int64_t counts[SUMS] = { p->hidden_dim, p->batch * p->keys * p->hidden_dim, p->batch * p->keys * p->value_dim,
                                   p->hidden_dim };
    double **const of_row[] = {
        &w->row.logit, &w->row.logit_unit, &w->row.p, &w->row.ds, &w->row.size, &w->row.factor
    };
    int complete = 1;
    for (int id = 0; id < SUMS; ++id) {
        w->sums[id] = calloc((size_t)counts[id] + 1, sizeof(*w->sums[id]));
        complete = complete && w->sums[id];
    }
    for (size_t n = 0; n < sizeof(of_row) / sizeof(of_row[0]); ++n) {
        *of_row[n] = numbers_allocate(p->keys);
        complete = complete && *of_row[n];
    }
    w->row.tanh = numbers_allocate(p->keys * p->hidden_dim);
    w->row.seen = calloc((size_t)p->keys + 1, 1);
    w->score = numbers_allocate(p->hidden_dim);
    w->score_common = numbers_allocate(p->hidden_dim);
    if (!complete || !w->row.tanh || !w->row.seen || !w->score || !w->score_common) {
        return numbers_no_memory();
    }
    for (int64_t h = 0; h < p->hidden_dim; ++h) {
        const struct tensor_place *place = &w->operands->tensor[ADDITIVE_SCORE];
        w->score[h] = type_load(p->type, place->data, place->offset + h);
    }
    return CLATTN_OK;
}

static void release(struct work *w)
{
    double *const doubles[] = { w->row.tanh, w->row.logit,  w->row.logit_unit, w->row.p,       w->row.ds,
                                w->row.size, w->row.factor, w->score,          w->score_common };
    for (int id = 0; id < MATRICES; ++id) {
        free(w->matrix[id].value);
        free(w->matrix[id].unit);
    }
    for (int id = 0; id < SUMS; ++id) {
        free(w->sums[id]);
    }
    for (size_t n = 0; n < sizeof(doubles) / sizeof(doubles[0]); ++n) {
        free(doubles[n]);
    }
    free(w->row.seen);
}

/* ---- a row ------------------------------------------------------------------------------------ */

static int64_t query_row(const struct work *w)
{
    return w->row.b * w->p->rows + w->row.i;
}

static int64_t key_row(const struct work *w, int64_t j)
{
    return w->row.b * w->p->keys + j;
}

/* What a pair's tanh of hidden unit h is off by. */
static double tanh_unit(const struct work *w, int64_t j, int64_t h)
{
    const struct numbers *a = &w->matrix[QUERY_UNITS], *c = &w->matrix[KEY_UNITS];
    const int64_t at = query_row(w) * w->p->hidden_dim + h, from = key_row(w, j) * w->p->hidden_dim + h;
    const double t = w->row.tanh[j * w->p->hidden_dim + h];
    return (1 - t * t) * (a->unit[at] + c->unit[from] + fabs(a->value[at] + c->value[from])) + TANH_UNITS * fabs(t);
}

static void find_logit(struct work *w, int64_t j)
{
    const int64_t hidden = w->p->hidden_dim;
    const double *a = w->matrix[QUERY_UNITS].value + query_row(w) * hidden;
    const double *c = w->matrix[KEY_UNITS].value + key_row(w, j) * hidden;
    double sum = 0, carried = 0, squares = 0;
    for (int64_t h = 0; h < hidden; ++h) {
        const double t = tanh(a[h] + c[h]), of_tanh = w->score[h] * (w->row.tanh[j * hidden + h] = t);
        const double off = w->score[h] * tanh_unit(w, j, h);
        sum += of_tanh;
        carried += off * off;
        squares += of_tanh * of_tanh;
    }
    w->row.logit[j] = sum;
    w->row.logit_unit[j] = sqrt(carried) + (sqrt((double)hidden) + 8) * sqrt(squares);
}

/* p of the keys that the row sees, and how many these are; lse. */
static int64_t find_weights(struct work *w, double *lse)
{
    struct row *r = &w->row;
    double maximum = -INFINITY, sum = 0;
    int64_t seen = 0;
    for (int64_t j = 0; j < w->p->keys; ++j) {
        r->seen[j] = (unsigned char)additive_is_allowed(&w->problem->layer, w->operands, r->b, r->i, j);
        if (r->seen[j]) {
            find_logit(w, j);
            maximum = isnan(r->logit[j]) || r->logit[j] > maximum ? r->logit[j] : maximum;
            ++seen;
        }
    }
    for (int64_t j = 0; j < w->p->keys; ++j) {
        r->p[j] = r->seen[j] ? exp(r->logit[j] - maximum) : 0;
        sum += r->p[j];
    }
    for (int64_t j = 0; j < w->p->keys && seen; ++j) {
        r->p[j] /= sum;
    }
    *lse = maximum + log(sum);
    return seen;
}

/* dS of all pairs, its sizes and factors. */
static void find_ds(struct work *w, int64_t seen, double lse)
{
    const int64_t dim = w->p->value_dim;
    const double *dout = w->matrix[DOUT].value + query_row(w) * dim;
    struct row *r = &w->row;
    double d = 0, mean_unit = 0;
    r->d_size = 0;
    for (int64_t j = 0; j < w->p->keys; ++j) {
        const double *value = w->matrix[VALUE].value + key_row(w, j) * dim;
        r->ds[j] = r->size[j] = 0;
        for (int64_t c = 0; c < dim && r->seen[j]; ++c) {
            r->ds[j] += dout[c] * value[c];
            r->size[j] += fabs(dout[c] * value[c]);
        }
        if (r->seen[j]) {
            d += r->p[j] * r->ds[j];
            r->d_size += r->p[j] * r->size[j];
            mean_unit += r->p[j] * r->logit_unit[j];
        }
    }
    r->common = sqrt((double)dim) + mean_unit + fabs(lse) + sqrt((double)seen) + 8;
    for (int64_t j = 0; j < w->p->keys; ++j) {
        if (r->seen[j]) {
            r->ds[j] = r->p[j] * (r->ds[j] - d);
            r->size[j] = r->p[j] * (r->size[j] + r->d_size);
            r->factor[j] = r->common + r->logit_unit[j] + fabs(r->logit[j]);
        }
    }
}

static void add_values(struct work *w, int64_t j)
{
    const double *dout = w->matrix[DOUT].value + query_row(w) * w->p->value_dim;
    for (int64_t c = 0; c < w->p->value_dim; ++c) {
        const double term = w->row.p[j] * dout[c];
        gradient_sum_add(&w->sums[OF_VALUES][key_row(w, j) * w->p->value_dim + c], (long double)term, fabs(term),
                         w->row.factor[j], 0);
    }
}

/* What hidden unit h has of the row's pairs. */
static void add_units(struct work *w, int64_t h)
{
    const int64_t hidden = w->p->hidden_dim;
    struct row *r = &w->row;
    struct gradient_sum *of_row = &w->sums[OF_ROW][h];
    double p_slack = 0, ds_slack = 0, p_tanh = 0, ds_tanh = 0;
    for (int64_t j = 0; j < w->p->keys; ++j) {
        if (!r->seen[j]) {
            continue;
        }
        const double t = r->tanh[j * hidden + h], slack = 1 - t * t, off = tanh_unit(w, j, h) / r->factor[j];
        const long double ds = r->ds[j];
        gradient_sum_add(of_row, ds * slack, r->size[j] * (slack + 2 * off), r->factor[j], 0);
        gradient_sum_add(&w->sums[OF_KEYS][key_row(w, j) * hidden + h], ds * slack, r->size[j] * (slack + 2 * off),
                         r->factor[j], 0);
        gradient_sum_add(&w->sums[OF_SCORE][h], ds * t, r->size[j] * (fabs(t) + off), r->factor[j], 0);
        p_slack += r->p[j] * slack;
        ds_slack += r->ds[j] * slack;
        p_tanh += r->p[j] * t;
        ds_tanh += r->ds[j] * t;
    }
    const double score_common = r->common * (r->d_size * fabs(p_tanh) + fabs(ds_tanh));
    of_row->common = r->common * (r->d_size * p_slack + fabs(ds_slack));
    w->score_common[h] += score_common * score_common;
    w->matrix[DQUERY_UNITS].value[query_row(w) * hidden + h] = w->score[h] * (double)of_row->sum;
    w->matrix[DQUERY_UNITS].unit[query_row(w) * hidden + h] = fabs(w->score[h]) * gradient_sum_unit(of_row);
}

static void differentiate_row(struct work *w)
{
    double lse;
    const int64_t seen = find_weights(w, &lse);
    memset(w->sums[OF_ROW], 0, (size_t)w->p->hidden_dim * sizeof(*w->sums[OF_ROW]));
    if (!seen) {
        return;
    }
    find_ds(w, seen, lse);
    for (int64_t j = 0; j < w->p->keys; ++j) {
        if (w->row.seen[j]) {
            add_values(w, j);
        }
    }
    for (int64_t h = 0; h < w->p->hidden_dim; ++h) {
        add_units(w, h);
    }
}

/* ---- gradients -------------------------------------------------------------------------------- */

static void multiply_back(const struct work *w, const struct gradient_detail *detail)
{
    static const struct {
        enum matrix_id units, input, weight;
        int dinput, dweight;
    } sides[] = { { DQUERY_UNITS, QUERY, WQ, ADDITIVE_DQUERY, ADDITIVE_DWQ },
                  { DKEY_UNITS, KEY, WK, ADDITIVE_DKEY, ADDITIVE_DWK } };
    for (size_t n = 0; n < 2; ++n) {
        const struct numbers units = w->matrix[sides[n].units], input = w->matrix[sides[n].input];
        if (detail->value[sides[n].dinput]) {
            numbers_multiply(units, w->matrix[sides[n].weight], NULL,
                             gradient_detail_rows(detail, sides[n].dinput, 0, input.rows, input.columns));
        }
        if (detail->value[sides[n].dweight]) {
            numbers_multiply(numbers_turned(units), input, NULL,
                             gradient_detail_rows(detail, sides[n].dweight, 0, units.columns, input.columns));
        }
    }
}

static void take_sums(const struct work *w, const struct gradient_detail *detail)
{
    const clattn_additive_problem *p = w->p;
    const struct numbers *of_keys = &w->matrix[DKEY_UNITS];
    for (int64_t n = 0; n < p->batch * p->keys * p->hidden_dim; ++n) {
        const double score = w->score[n % p->hidden_dim];
        of_keys->value[n] = score * (double)w->sums[OF_KEYS][n].sum;
        of_keys->unit[n] = fabs(score) * gradient_sum_unit(&w->sums[OF_KEYS][n]);
    }
    for (int64_t n = 0; n < p->batch * p->keys * p->value_dim && detail->value[ADDITIVE_DVALUE]; ++n) {
        detail->value[ADDITIVE_DVALUE][n] = (double)w->sums[OF_VALUES][n].sum;
        detail->unit[ADDITIVE_DVALUE][n] = gradient_sum_unit(&w->sums[OF_VALUES][n]);
    }
    for (int64_t h = 0; h < p->hidden_dim && detail->value[ADDITIVE_DSCORE]; ++h) {
        detail->value[ADDITIVE_DSCORE][h] = (double)w->sums[OF_SCORE][h].sum;
        detail->unit[ADDITIVE_DSCORE][h] = gradient_sum_unit(&w->sums[OF_SCORE][h]) + sqrt(w->score_common[h]);
    }
}

clattn_status reference_additive_backward_detail(const struct additive_backward_problem *problem,
                                                 const struct operands *operands, struct gradient_detail *detail)
{
    struct work w = { .problem = problem, .p = &problem->layer.p, .operands = operands };
    clattn_status status = gradient_detail_create(operands, ADDITIVE_TENSOR_COUNT, detail);
    if (status == CLATTN_OK) {
        status = take_inputs(&w);
    }
    if (status == CLATTN_OK) {
        status = allocate(&w);
    }
    for (w.row.b = 0; w.p->rows > 0 && w.row.b < w.p->batch && status == CLATTN_OK; ++w.row.b) {
        for (w.row.i = 0; w.row.i < w.p->rows; ++w.row.i) {
            differentiate_row(&w);
        }
    }
    if (status == CLATTN_OK) {
        take_sums(&w, detail);
        multiply_back(&w, detail);
    }
    release(&w);
    if (status != CLATTN_OK) {
        gradient_detail_free(detail);
    }
    return status;
}

clattn_status reference_additive_backward(const struct any_problem *any, const struct operands *operands)
{
    const struct additive_backward_problem *problem = additive_backward_problem_of(any);
    struct gradient_detail detail;
    const clattn_status status = reference_additive_backward_detail(problem, operands, &detail);
    if (status == CLATTN_OK) {
        gradient_detail_store(&detail, operands, problem->type);
        gradient_detail_free(&detail);
    }
    return status;
}
