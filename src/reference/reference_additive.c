/* Additive attention row by row. */
#include "reference/reference_additive.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/stored_types.h"

/* What the device stores in 16 bits is rounded here too. */
static double rounded(clattn_type type, double value)
{
    double storage;
    type_store(type, &storage, 0, value);
    return type_load(type, &storage, 0);
}

/* hidden[r][h] = dot(weight[h], rows[r]) */
static void project(clattn_type type, const void *rows, const void *weight, int64_t count, int64_t depth,
                    int64_t hidden_dim, double *hidden)
{
    for (int64_t r = 0; r < count; ++r) {
        for (int64_t h = 0; h < hidden_dim; ++h) {
            double sum = 0;
            for (int64_t c = 0; c < depth; ++c) {
                sum += type_load(type, rows, r * depth + c) * type_load(type, weight, h * depth + c);
            }
            hidden[r * hidden_dim + h] = rounded(type, sum);
        }
    }
}

int additive_is_allowed(const struct additive_problem *problem, const struct operands *operands, int64_t b, int64_t i,
                        int64_t j)
{
    const clattn_additive_problem *p = &problem->p;
    const int32_t *lengths = operands->tensor[ADDITIVE_KEY_LENGTHS].data;
    const uint8_t *mask = operands->tensor[ADDITIVE_MASK].data;
    const int64_t length = lengths ? lengths[b] : p->keys;
    const int64_t offset = p->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? length - p->rows : 0;
    const int64_t *stride = operands->tensor[ADDITIVE_MASK].stride;
    return j < length && (!p->causal || j <= i + offset) &&
           (!mask || mask[operands->tensor[ADDITIVE_MASK].offset + b * stride[0] + i * stride[2] + j * stride[3]] != 0);
}

/* One row of scores, of weights and of out. */
static void attend(const struct additive_problem *problem, const struct operands *operands, int64_t b, int64_t i,
                   const double *query, const double *keys, double *weights)
{
    const clattn_additive_problem *p = &problem->p;
    const int64_t hidden_dim = p->hidden_dim, row = b * p->rows + i;
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p->keys; ++j) {
        weights[j] = -INFINITY;
        if (additive_is_allowed(problem, operands, b, i, j)) {
            weights[j] = 0;
            for (int64_t h = 0; h < hidden_dim; ++h) {
                weights[j] += type_load(p->type, operands->tensor[ADDITIVE_SCORE].data, h) *
                              tanh(query[h] + keys[j * hidden_dim + h]);
            }
            maximum = isnan(weights[j]) || weights[j] > maximum ? weights[j] : maximum;
        }
    }
    for (int64_t j = 0; j < p->keys; ++j) {
        weights[j] = additive_is_allowed(problem, operands, b, i, j) ? exp(weights[j] - maximum) : 0;
        sum += weights[j];
    }
    for (int64_t j = 0; j < p->keys && sum != 0; ++j) {
        weights[j] /= sum;
    }
    for (int64_t j = 0; j < p->keys && p->weights; ++j) {
        ((float *)operands->tensor[ADDITIVE_WEIGHTS].data)[row * p->keys + j] = (float)weights[j];
    }
    for (int64_t c = 0; c < p->value_dim; ++c) {
        double mixed = 0;
        for (int64_t j = 0; j < p->keys; ++j) {
            if (additive_is_allowed(problem, operands, b, i, j)) {
                mixed += weights[j] * type_load(p->type, operands->tensor[ADDITIVE_VALUE].data,
                                                (b * p->keys + j) * p->value_dim + c);
            }
        }
        type_store(p->type, operands->tensor[ADDITIVE_OUT].data, row * p->value_dim + c, mixed);
    }
}

clattn_status reference_additive(const struct any_problem *any, const struct operands *operands)
{
    const struct additive_problem *problem = additive_problem_of(any);
    const clattn_additive_problem *p = &problem->p;
    const int64_t rows = p->batch * p->rows, keys = p->batch * p->keys;
    double *queries_hidden = calloc((size_t)(rows * p->hidden_dim) + 1, sizeof(double));
    double *keys_hidden = calloc((size_t)(keys * p->hidden_dim) + 1, sizeof(double));
    double *weights = calloc((size_t)p->keys + 1, sizeof(double));
    clattn_status status = CLATTN_OK;
    if (!queries_hidden || !keys_hidden || !weights) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the reference");
    } else {
        project(p->type, operands->tensor[ADDITIVE_QUERY].data, operands->tensor[ADDITIVE_WQ].data, rows, p->query_dim,
                p->hidden_dim, queries_hidden);
        project(p->type, operands->tensor[ADDITIVE_KEY].data, operands->tensor[ADDITIVE_WK].data, keys, p->key_dim,
                p->hidden_dim, keys_hidden);
        for (int64_t row = 0; row < rows; ++row) {
            const int64_t b = row / p->rows;
            attend(problem, operands, b, row % p->rows, queries_hidden + row * p->hidden_dim,
                   keys_hidden + b * p->keys * p->hidden_dim, weights);
        }
    }
    free(queries_hidden);
    free(keys_hidden);
    free(weights);
    return status;
}
