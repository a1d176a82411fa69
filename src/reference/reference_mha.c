/* The multi-head layer in float64, step by step around the reference's attention. Intermediate results are rounded to
 * the storage type where the device stores them. */
#include "operation/mha.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/reference.h"

/* result[m][n] = sum_k left[m][k] weight[first_row + n][k] + bias[first_row + n], rounded to the type. */
static void project(clattn_type type, const void *left, const void *weight, const void *bias, int64_t first_row,
                    int64_t rows, int64_t columns, int64_t depth, void *result)
{
    for (int64_t m = 0; m < rows; ++m) {
        for (int64_t n = 0; n < columns; ++n) {
            double sum = bias ? type_load(type, bias, first_row + n) : 0;
            for (int64_t k = 0; k < depth; ++k) {
                sum += type_load(type, left, m * depth + k) * type_load(type, weight, (first_row + n) * depth + k);
            }
            type_store(type, result, m * columns + n, sum);
        }
    }
}

struct parts {
    void *projected[3]; /* query, key, value: [batch * rows][heads * head_dim] */
    void *heads;        /* [batch * rows][query_heads * head_dim_v] */
    void *weights;      /* of all heads, where they are averaged */
};

static clattn_status allocate(struct parts *parts, const struct mha_problem *problem)
{
    const clattn_mha_problem *p = &problem->p;
    const int64_t rows = p->batch * p->rows, context_rows = p->batch * p->context_rows;
    const size_t size = clattn_type_size(p->type);
    const int64_t counts[3] = { rows * problem->query_dim, context_rows * problem->key_dim,
                                context_rows * problem->value_dim };
    int complete = 1;
    for (int i = 0; i < 3; ++i) {
        parts->projected[i] = calloc((size_t)counts[i] + 1, size);
        complete = complete && parts->projected[i];
    }
    parts->heads = calloc((size_t)(rows * problem->heads_dim) + 1, size);
    if (p->weights == CLATTN_MHA_WEIGHTS_AVERAGE) {
        parts->weights = calloc((size_t)(rows * p->context_rows * p->query_heads) + 1, sizeof(double));
        complete = complete && parts->weights;
    }
    return complete && parts->heads ? CLATTN_OK
                                    : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the reference");
}

static void release(struct parts *parts)
{
    for (int i = 0; i < 3; ++i) {
        free(parts->projected[i]);
    }
    free(parts->heads);
    free(parts->weights);
}

static void project_inputs(const struct mha_problem *problem, const struct operands *operands, struct parts *parts)
{
    static const enum mha_tensor weights[3] = { MHA_WQ, MHA_WK, MHA_WV };
    static const enum mha_tensor biases[3] = { MHA_BQ, MHA_BK, MHA_BV };
    const clattn_mha_problem *p = &problem->p;
    const int packed = (p->parts & CLATTN_MHA_PACKED) != 0, cross = (p->parts & CLATTN_MHA_CROSS) != 0;
    const int64_t columns[3] = { problem->query_dim, problem->key_dim, problem->value_dim };
    int64_t first_row = 0;
    for (int i = 0; i < 3; ++i) {
        const int of_context = i > 0 && cross;
        project(p->type, operands->tensor[of_context ? MHA_CONTEXT : MHA_X].data,
                operands->tensor[packed ? MHA_WQ : weights[i]].data, operands->tensor[packed ? MHA_BQ : biases[i]].data,
                packed ? first_row : 0, p->batch * (of_context ? p->context_rows : p->rows), columns[i],
                of_context ? p->context_dim : p->model_dim, parts->projected[i]);
        first_row += columns[i];
    }
}

static clattn_host_tensor heads_of(void *data, int64_t rows, int64_t heads, int64_t head_dim)
{
    clattn_host_tensor tensor = { data, 0, { 0, 0, 0, 0 } };
    clattn_strides_bshd(heads, (rows > 0 ? rows : 1), head_dim, tensor.stride);
    return tensor;
}

static clattn_status attend(const struct mha_problem *problem, const struct operands *operands,
                            const struct parts *parts)
{
    const clattn_mha_problem *p = &problem->p;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call attention;
    tensors.query = heads_of(parts->projected[0], p->rows, p->query_heads, p->head_dim);
    tensors.key = heads_of(parts->projected[1], p->context_rows, p->kv_heads, p->head_dim);
    tensors.value = heads_of(parts->projected[2], p->context_rows, p->kv_heads, p->head_dim_v);
    tensors.out = heads_of(parts->heads, p->rows, p->query_heads, p->head_dim_v);
    values.has_scale = p->has_scale;
    values.scale = p->scale;
    tensors.mask.data = operands->tensor[MHA_MASK].data;
    tensors.mask.offset = operands->tensor[MHA_MASK].offset;
    memcpy(tensors.mask.stride, operands->tensor[MHA_MASK].stride, sizeof(tensors.mask.stride));
    tensors.key_lengths.data = operands->tensor[MHA_KEY_LENGTHS].data;
    if (p->weights) {
        tensors.weights.data = parts->weights ? parts->weights : operands->tensor[MHA_WEIGHTS].data;
        clattn_strides_bhsd(p->query_heads, p->rows, (p->context_rows > 0 ? p->context_rows : 1),
                            tensors.weights.stride);
    }
    clattn_status status = call_from_host(&problem->attention, &values, &tensors, &attention);
    return status == CLATTN_OK ? reference_forward(&problem->attention.any, &attention.operands) : status;
}

static void average_weights(const struct mha_problem *problem, const struct operands *operands,
                            const struct parts *parts)
{
    const clattn_mha_problem *p = &problem->p;
    const clattn_type type = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    const int64_t pairs = p->rows * p->context_rows;
    for (int64_t i = 0; i < p->batch * pairs; ++i) {
        double sum = 0;
        for (int64_t h = 0; h < p->query_heads; ++h) {
            sum += type_load(type, parts->weights, (i / pairs * p->query_heads + h) * pairs + i % pairs);
        }
        type_store(type, operands->tensor[MHA_WEIGHTS].data, i, sum / (double)p->query_heads);
    }
}

clattn_status reference_mha(const struct any_problem *any, const struct operands *operands)
{
    const struct mha_problem *problem = mha_problem_of(any);
    const clattn_mha_problem *p = &problem->p;
    struct parts parts = { { NULL, NULL, NULL }, NULL, NULL };
    if (p->batch == 0 || p->rows == 0) {
        return CLATTN_OK;
    }
    clattn_status status = allocate(&parts, problem);
    if (status == CLATTN_OK) {
        project_inputs(problem, operands, &parts);
        status = attend(problem, operands, &parts);
    }
    if (status == CLATTN_OK) {
        project(p->type, parts.heads, operands->tensor[MHA_WO].data, operands->tensor[MHA_BO].data, 0,
                p->batch * p->rows, p->out_dim, problem->heads_dim, operands->tensor[MHA_Y].data);
        if (parts.weights) {
            average_weights(problem, operands, &parts);
        }
    }
    release(&parts);
    return status;
}
