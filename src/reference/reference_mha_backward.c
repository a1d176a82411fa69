/* The layer once more, then backwards, each step a product of two matrices of numbers that know their errors;
 * attention's gradients are off by what clattn_reference_backward counts their errors in, times a factor for what its
 * inputs are off by. */
#include "reference/reference_mha_backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/numbers.h"
#include "reference/reference.h"
#include "reference/reference_backward.h"

enum matrix_id { X, CONTEXT, DY, QUERY, KEY, VALUE, HEADS, DHEADS, DQUERY, DKEY, DVALUE, WQ, WK, WV, WO, MATRICES };

struct work {
    const struct mha_backward_problem *problem;
    const struct operands *operands;
    struct numbers matrix[MATRICES];
    struct backward_detail attention;
    struct backward_problem backward; /* all three gradients of attention, in float64 */
    struct call call;
    float *lse;
};

/* ---- what is given ---------------------------------------------------------------------------- */

/* Rows [first_row, first_row + rows) of a tensor with `columns`. */
static clattn_status take(struct work *w, enum matrix_id to, int id, int64_t first_row, int64_t rows, int64_t columns)
{
    const struct tensor_place *place = &w->operands->tensor[id];
    const clattn_status status = numbers_create(&w->matrix[to], rows, columns);
    for (int64_t i = 0; i < rows * columns && status == CLATTN_OK; ++i) {
        w->matrix[to].value[i] =
            type_load(w->problem->layer.p.type, place->data, place->offset + first_row * columns + i);
    }
    return status;
}

static clattn_status take_inputs(struct work *w)
{
    static const int weights[MHA_PARTS] = { MHA_WQ, MHA_WK, MHA_WV };
    const struct mha_problem *layer = &w->problem->layer;
    const clattn_mha_problem *p = &layer->p;
    const int packed = (p->parts & CLATTN_MHA_PACKED) != 0, cross = (p->parts & CLATTN_MHA_CROSS) != 0;
    const int64_t dims[MHA_PARTS] = { layer->query_dim, layer->key_dim, layer->value_dim };
    const int64_t rows = p->batch * p->rows;
    int64_t first_row = 0;
    clattn_status status = take(w, X, MHA_X, 0, rows, p->model_dim);
    if (status == CLATTN_OK && cross) {
        status = take(w, CONTEXT, MHA_CONTEXT, 0, p->batch * p->context_rows, p->context_dim);
    }
    if (status == CLATTN_OK) {
        status = take(w, DY, MHA_DY, 0, rows, p->out_dim);
    }
    if (status == CLATTN_OK) {
        status = take(w, WO, MHA_WO, 0, p->out_dim, layer->heads_dim);
    }
    for (int i = 0; i < MHA_PARTS && status == CLATTN_OK; ++i) {
        status = take(w, (enum matrix_id)(WQ + i), packed ? MHA_WQ : weights[i], packed ? first_row : 0, dims[i],
                      i > 0 ? p->context_dim : p->model_dim);
        first_row += dims[i];
    }
    return status;
}

static struct numbers source_of(const struct work *w, int part)
{
    return w->matrix[part > 0 && w->matrix[CONTEXT].value ? CONTEXT : X];
}

static int bias_of(const struct work *w, int part, int64_t *first)
{
    static const int biases[MHA_PARTS] = { MHA_BQ, MHA_BK, MHA_BV };
    const struct mha_problem *layer = &w->problem->layer;
    const int packed = (layer->p.parts & CLATTN_MHA_PACKED) != 0;
    *first = !packed || part == 0 ? 0 : part == 1 ? layer->query_dim : layer->query_dim + layer->key_dim;
    return packed ? MHA_BQ : biases[part];
}

static clattn_status project(struct work *w, int part)
{
    const struct numbers source = source_of(w, part), weight = w->matrix[WQ + part];
    int64_t first;
    const struct tensor_place *place = &w->operands->tensor[bias_of(w, part, &first)];
    double *bias = place->data ? numbers_allocate(weight.rows) : NULL;
    clattn_status status = numbers_create(&w->matrix[QUERY + part], source.rows, weight.rows);
    if (status == CLATTN_OK && place->data && !bias) {
        status = numbers_no_memory();
    }
    for (int64_t n = 0; n < weight.rows && bias; ++n) {
        bias[n] = type_load(w->problem->layer.p.type, place->data, place->offset + first + n);
    }
    if (status == CLATTN_OK) {
        numbers_multiply(source, numbers_turned(weight), bias, w->matrix[QUERY + part]);
    }
    free(bias);
    return status;
}

/* ---- attention -------------------------------------------------------------------------------- */

static clattn_host_tensor tensor_of(const struct work *w, enum matrix_id id, int64_t rows, int64_t heads)
{
    const struct numbers *matrix = &w->matrix[id];
    clattn_host_tensor tensor = { matrix->value, 0, { 0, 0, 0, 0 } };
    clattn_strides_bshd(heads, rows > 0 ? rows : 1, matrix->columns / heads, tensor.stride);
    return tensor;
}

static clattn_status prepare_attention(struct work *w, clattn_problem *problem, clattn_backward_problem *backward)
{
    const clattn_mha_problem *p = &w->problem->layer.p;
    *problem = mha_attention(p);
    problem->type = CLATTN_FLOAT64;
    problem->features |= CLATTN_WITH_LSE;
    *backward = (clattn_backward_problem)CLATTN_BACKWARD_PROBLEM_INIT;
    backward->forward = problem;
    backward->gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    clattn_status status = backward_problem_init(&w->backward, backward);
    if (status == CLATTN_OK) {
        status = numbers_create(&w->matrix[HEADS], p->batch * p->rows, w->problem->layer.heads_dim);
    }
    if (status == CLATTN_OK) {
        status = numbers_create(&w->matrix[DHEADS], p->batch * p->rows, w->problem->layer.heads_dim);
    }
    for (int i = 0; i < MHA_PARTS && status == CLATTN_OK; ++i) {
        status = numbers_create(&w->matrix[DQUERY + i], w->matrix[QUERY + i].rows, w->matrix[QUERY + i].columns);
    }
    w->lse = status == CLATTN_OK ? calloc((size_t)(p->batch * p->rows * p->query_heads) + 1, sizeof(float)) : NULL;
    return status == CLATTN_OK && !w->lse ? numbers_no_memory() : status;
}

static void fill_tensors(const struct work *w, clattn_host_tensors *tensors, clattn_host_gradients *gradients,
                         clattn_call *values)
{
    const clattn_mha_problem *p = &w->problem->layer.p;
    const struct tensor_place *mask = &w->operands->tensor[MHA_MASK];
    tensors->query = tensor_of(w, QUERY, p->rows, p->query_heads);
    tensors->key = tensor_of(w, KEY, p->context_rows, p->kv_heads);
    tensors->value = tensor_of(w, VALUE, p->context_rows, p->kv_heads);
    tensors->out = tensor_of(w, HEADS, p->rows, p->query_heads);
    tensors->lse.data = w->lse;
    clattn_strides_bhsd(p->query_heads, p->rows > 0 ? p->rows : 1, 1, tensors->lse.stride);
    tensors->mask.data = mask->data;
    tensors->mask.offset = mask->offset;
    memcpy(tensors->mask.stride, mask->stride, sizeof(mask->stride));
    tensors->key_lengths.data = w->operands->tensor[MHA_KEY_LENGTHS].data;
    tensors->key_lengths.offset = w->operands->tensor[MHA_KEY_LENGTHS].offset;
    gradients->dout = tensor_of(w, DHEADS, p->rows, p->query_heads);
    gradients->dquery = tensor_of(w, DQUERY, p->rows, p->query_heads);
    gradients->dkey = tensor_of(w, DKEY, p->context_rows, p->kv_heads);
    gradients->dvalue = tensor_of(w, DVALUE, p->context_rows, p->kv_heads);
    values->has_scale = p->has_scale;
    values->scale = p->scale;
}

static double largest(const double *values, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; ++i) {
        most = isfinite(values[i]) && fabs(values[i]) > most ? fabs(values[i]) : most;
    }
    return most;
}

static double largest_of(const struct numbers *a, const double *of)
{
    return largest(of, a->rows * a->columns);
}

/* What logits are off by, at most: by what queries and keys are off by, and of their own sums. */
static double logit_unit(const struct work *w)
{
    const struct numbers *query = &w->matrix[QUERY], *key = &w->matrix[KEY];
    const double d = (double)w->problem->layer.p.head_dim, scale = fabs(w->call.scale);
    const double q = largest_of(query, query->value), k = largest_of(key, key->value);
    return scale * (sqrt(d) * (largest_of(query, query->unit) * k + q * largest_of(key, key->unit)) + d * q * k);
}

/* Out of the sums of attention's reference. */
static void take_gradient(struct work *w, int part)
{
    const struct gradient_sums *sums = &w->attention.sums[GRADIENT_DQUERY + part];
    struct numbers *to = &w->matrix[DQUERY + part];
    const double factor = 2 + (logit_unit(w) + sqrt((double)w->problem->layer.p.out_dim)) / 8;
    for (int64_t i = 0; i < to->rows * to->columns && sums->place; ++i) {
        to->value[i] = (double)sums->sums[i].sum;
        to->unit[i] = factor * gradient_sum_unit(&sums->sums[i]);
    }
}

static clattn_status attend(struct work *w)
{
    clattn_problem problem;
    clattn_backward_problem backward;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call forward;
    clattn_status status = prepare_attention(w, &problem, &backward);
    if (status != CLATTN_OK) {
        return status;
    }
    fill_tensors(w, &tensors, &gradients, &values);
    struct problem attention = w->backward.attention;
    attention.any.operation = &operation_forward;
    status = call_from_host(&attention, &values, &tensors, &forward);
    if (status == CLATTN_OK) {
        status = reference_forward(&attention.any, &forward.operands);
    }
    numbers_multiply(w->matrix[DY], w->matrix[WO], NULL, w->matrix[DHEADS]);
    if (status == CLATTN_OK) {
        status = backward_call_from_host(&w->backward, &values, &tensors, &gradients, &w->call);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    const struct numbers *value = &w->matrix[VALUE], *heads = &w->matrix[HEADS];
    const double unit = (8 + sqrt((double)problem.key_len) + logit_unit(w)) * largest_of(value, value->value) +
                        largest_of(value, value->unit);
    for (int64_t i = 0; i < heads->rows * heads->columns; ++i) {
        heads->unit[i] = unit;
    }
    w->attention.own_forward = 1;
    return reference_backward_detail(&w->backward, &w->call, &w->attention);
}

/* ---- gradients -------------------------------------------------------------------------------- */

static void weight_gradient(struct numbers left, struct numbers right, const struct gradient_detail *detail, int id,
                            int64_t first_row)
{
    if (detail->value[id]) {
        numbers_multiply(numbers_turned(left), right, NULL,
                         gradient_detail_rows(detail, id, first_row, left.columns, right.columns));
    }
}

static void bias_gradient(struct numbers a, const struct gradient_detail *detail, int id, int64_t first)
{
    double one = 1, exact = 0;
    const struct numbers ones = { &one, &exact, a.rows, 1, 0, 0 };
    if (detail->value[id]) {
        numbers_multiply(numbers_turned(a), ones, NULL, gradient_detail_rows(detail, id, first, a.columns, 1));
    }
}

static void multiply_back(const struct work *w, const struct gradient_detail *detail)
{
    static const int weights[MHA_PARTS] = { MHA_DWQ, MHA_DWK, MHA_DWV },
                     biases[MHA_PARTS] = { MHA_DBQ, MHA_DBK, MHA_DBV };
    const int packed = (w->problem->layer.p.parts & CLATTN_MHA_PACKED) != 0;
    weight_gradient(w->matrix[DY], w->matrix[HEADS], detail, MHA_DWO, 0);
    bias_gradient(w->matrix[DY], detail, MHA_DBO, 0);
    for (int i = 0; i < MHA_PARTS; ++i) {
        const struct numbers gradient = w->matrix[DQUERY + i];
        const int to_context = i > 0 && w->matrix[CONTEXT].value != NULL;
        const int dinput = to_context ? MHA_DCONTEXT : MHA_DX;
        int64_t first;
        bias_of(w, i, &first);
        weight_gradient(gradient, source_of(w, i), detail, packed ? MHA_DWQ : weights[i], first);
        bias_gradient(gradient, detail, packed ? MHA_DBQ : biases[i], first);
        if (detail->value[dinput]) {
            numbers_multiply(gradient, w->matrix[WQ + i], NULL,
                             gradient_detail_rows(detail, dinput, 0, gradient.rows, w->matrix[WQ + i].columns));
        }
    }
}

clattn_status reference_mha_backward_detail(const struct mha_backward_problem *problem, const struct operands *operands,
                                            struct gradient_detail *detail)
{
    struct work w = { .problem = problem, .operands = operands };
    clattn_status status = gradient_detail_create(operands, MHA_TENSOR_COUNT, detail);
    if (status == CLATTN_OK) {
        status = take_inputs(&w);
    }
    for (int i = 0; i < MHA_PARTS && status == CLATTN_OK; ++i) {
        status = project(&w, i);
    }
    if (status == CLATTN_OK) {
        status = attend(&w);
    }
    if (status == CLATTN_OK) {
        for (int i = 0; i < MHA_PARTS; ++i) {
            take_gradient(&w, i);
        }
        multiply_back(&w, detail);
        backward_detail_free(&w.attention);
    }
    for (int i = 0; i < MATRICES; ++i) {
        free(w.matrix[i].value);
        free(w.matrix[i].unit);
    }
    free(w.lse);
    if (status != CLATTN_OK) {
        gradient_detail_free(detail);
    }
    return status;
}

clattn_status reference_mha_backward(const struct any_problem *any, const struct operands *operands)
{
    const struct mha_backward_problem *problem = mha_backward_problem_of(any);
    struct gradient_detail detail;
    const clattn_status status = reference_mha_backward_detail(problem, operands, &detail);
    if (status == CLATTN_OK) {
        gradient_detail_store(&detail, operands, problem->type);
        gradient_detail_free(&detail);
    }
    return status;
}
