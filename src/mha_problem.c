/* Validation of a multi-head layer: every rule with a message that names the field, its value and the rule. */
#include "mha_problem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const uint32_t known_parts = CLATTN_MHA_CROSS | CLATTN_MHA_PACKED | CLATTN_MHA_BIASES;
static const uint32_t input_biases =
    CLATTN_MHA_BIAS_QUERY | CLATTN_MHA_BIAS_KEY | CLATTN_MHA_BIAS_VALUE;

static int has(const clattn_mha_problem *p, uint32_t part)
{
    return (p->parts & part) != 0;
}

static clattn_status check_kinds(const clattn_mha_problem *p)
{
    if (p->parts & ~known_parts) {
        return error_set(CLATTN_INVALID_ARGUMENT, "parts 0x%x: bits 0x%x are not known", p->parts,
                         p->parts & ~known_parts);
    }
    if (p->features & ~(uint32_t)(CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features 0x%x: a layer takes CLATTN_WITH_MASK and CLATTN_WITH_KEY_LENGTHS",
                         p->features);
    }
    if ((int)p->weights < CLATTN_MHA_WEIGHTS_NONE || (int)p->weights > CLATTN_MHA_WEIGHTS_AVERAGE) {
        return error_set(CLATTN_INVALID_ARGUMENT, "weights %d: is not a clattn_mha_weights",
                         (int)p->weights);
    }
    if ((int)p->projection < CLATTN_PROJECTION_AUTO ||
        (int)p->projection > CLATTN_PROJECTION_CLBLAST) {
        return error_set(CLATTN_INVALID_ARGUMENT, "projection %d: is not a clattn_projection",
                         (int)p->projection);
    }
    if (p->alignment == CLATTN_ALIGN_OFFSETS) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "alignment CLATTN_ALIGN_OFFSETS: a layer has no offsets; use top left or bottom "
                         "right");
    }
    if (has(p, CLATTN_MHA_PACKED) && has(p, input_biases) &&
        (p->parts & input_biases) != input_biases) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "parts 0x%x: packed weights have the biases of query, key and value, or none",
                         p->parts);
    }
    if (p->has_scale && !isfinite(p->scale)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scale %g: must be finite", p->scale);
    }
    return CLATTN_OK;
}

static clattn_status resolve_context(clattn_mha_problem *p)
{
    if (!has(p, CLATTN_MHA_CROSS)) {
        if (p->context_rows != 0 && p->context_rows != p->rows) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "context_rows %" PRId64 ": must be 0 or rows %" PRId64
                             " without CLATTN_MHA_CROSS",
                             p->context_rows, p->rows);
        }
        if (p->context_dim != 0 && p->context_dim != p->model_dim) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "context_dim %" PRId64 ": must be 0 or model_dim %" PRId64
                             " without CLATTN_MHA_CROSS",
                             p->context_dim, p->model_dim);
        }
        p->context_rows = p->rows;
    }
    p->context_dim = p->context_dim ? p->context_dim : p->model_dim;
    if (has(p, CLATTN_MHA_PACKED) && p->context_dim != p->model_dim) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "context_dim %" PRId64 ": must be model_dim %" PRId64
                         " where the weights are packed into one matrix",
                         p->context_dim, p->model_dim);
    }
    return CLATTN_OK;
}

/* Rows and columns of the matrices that are multiplied. */
static clattn_status check_products(const clattn_mha_problem *p)
{
    const int64_t query_dim = p->query_heads * p->head_dim, key_dim = p->kv_heads * p->head_dim;
    const int64_t value_dim = p->kv_heads * p->head_dim_v;
    const struct layer_dimension factors[] = {
        { "batch * rows", p->batch * p->rows, 0 },
        { "batch * context_rows", p->batch * p->context_rows, 0 },
        { "query_heads * head_dim", query_dim, 1 },
        { "query_heads * head_dim_v", p->query_heads * p->head_dim_v, 1 },
        { "kv_heads * head_dim_v", value_dim, 1 },
    };
    clattn_status status = layer_check_dimensions(factors, sizeof(factors) / sizeof(factors[0]));
    if (status != CLATTN_OK) {
        return status;
    }
    const struct layer_dimension packed = { "(query_heads + kv_heads) * head_dim + kv_heads * head_dim_v",
                                            query_dim + key_dim + value_dim, 1 };
    return layer_check_dimensions(&packed, 1);
}

static clattn_status resolve_dimensions(clattn_mha_problem *p)
{
    clattn_status status = resolve_context(p);
    if (status != CLATTN_OK) {
        return status;
    }
    p->kv_heads = p->kv_heads ? p->kv_heads : p->query_heads;
    if (p->head_dim == 0) {
        if (p->query_heads < 1 || p->model_dim % p->query_heads != 0) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "model_dim %" PRId64 ": must be a multiple of query_heads %" PRId64
                             ", or head_dim be set",
                             p->model_dim, p->query_heads);
        }
        p->head_dim = p->model_dim / p->query_heads;
    }
    p->head_dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    p->out_dim = p->out_dim ? p->out_dim : p->model_dim;
    const struct layer_dimension dimensions[] = {
        { "batch", p->batch, 0 },
        { "rows", p->rows, 0 },
        { "context_rows", p->context_rows, 0 },
        { "model_dim", p->model_dim, 1 },
        { "context_dim", p->context_dim, 1 },
        { "query_heads", p->query_heads, 1 },
        { "kv_heads", p->kv_heads, 1 },
        { "head_dim", p->head_dim, 1 },
        { "head_dim_v", p->head_dim_v, 1 },
        { "out_dim", p->out_dim, 1 },
    };
    const size_t count = sizeof(dimensions) / sizeof(dimensions[0]);
    status = layer_check_dimensions(dimensions, count);
    return status == CLATTN_OK ? check_products(p) : status;
}

static clattn_status init_attention(struct mha_problem *problem, const char *strategy)
{
    const clattn_mha_problem *p = &problem->p;
    clattn_problem attention = CLATTN_PROBLEM_INIT;
    attention.type = p->type;
    attention.batch = p->batch;
    attention.query_heads = p->query_heads;
    attention.kv_heads = p->kv_heads;
    attention.query_len = p->rows;
    attention.key_len = p->context_rows;
    attention.head_dim = p->head_dim;
    attention.head_dim_v = p->head_dim_v;
    attention.features = p->features;
    attention.causal = p->causal;
    attention.alignment = p->alignment;
    attention.weights = p->weights ? CLATTN_WEIGHTS_SOFTMAX : CLATTN_WEIGHTS_NONE;
    attention.strategy = strategy;
    return problem_init(&problem->attention, &attention);
}

struct array_row {
    const char *name;
    int dims;
    int64_t shape[4];
    size_t element_bytes;
    int required;
};

static clattn_status describe_arrays(struct mha_problem *problem)
{
    const clattn_mha_problem *p = &problem->p;
    const int64_t q = problem->query_dim, k = problem->key_dim, v = problem->value_dim;
    const int packed = has(p, CLATTN_MHA_PACKED), average = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE;
    const int64_t first = packed ? q + k + v : q;
    const size_t size = clattn_type_size(p->type), real = p->type == CLATTN_FLOAT64 ? 8 : 4;
    const struct array_row rows[MHA_ARRAYS] = {
        [MHA_X] = { "x", 3, { p->batch, p->rows, p->model_dim, 0 }, size, 1 },
        [MHA_CONTEXT] = { "context", 3, { p->batch, p->context_rows, p->context_dim, 0 }, size,
                          has(p, CLATTN_MHA_CROSS) },
        [MHA_Y] = { "y", 3, { p->batch, p->rows, p->out_dim, 0 }, size, 1 },
        [MHA_WQ] = { "wq", 2, { first, p->model_dim, 0, 0 }, size, 1 },
        [MHA_WK] = { "wk", 2, { k, p->context_dim, 0, 0 }, size, !packed },
        [MHA_WV] = { "wv", 2, { v, p->context_dim, 0, 0 }, size, !packed },
        [MHA_WO] = { "wo", 2, { p->out_dim, problem->heads_dim, 0, 0 }, size, 1 },
        [MHA_BQ] = { "bq", 1, { first, 0, 0, 0 }, size, has(p, CLATTN_MHA_BIAS_QUERY) },
        [MHA_BK] = { "bk", 1, { k, 0, 0, 0 }, size, !packed && has(p, CLATTN_MHA_BIAS_KEY) },
        [MHA_BV] = { "bv", 1, { v, 0, 0, 0 }, size, !packed && has(p, CLATTN_MHA_BIAS_VALUE) },
        [MHA_BO] = { "bo", 1, { p->out_dim, 0, 0, 0 }, size, has(p, CLATTN_MHA_BIAS_OUT) },
        [MHA_MASK] = { "mask", 4, { p->batch, p->query_heads, p->rows, p->context_rows }, 1,
                       (p->features & CLATTN_WITH_MASK) != 0 },
        [MHA_KEY_LENGTHS] = { "key_lengths", 1, { p->batch, 0, 0, 0 }, 4,
                              (p->features & CLATTN_WITH_KEY_LENGTHS) != 0 },
        [MHA_WEIGHTS] = { "weights", 4, { p->batch, average ? 1 : p->query_heads, p->rows, p->context_rows },
                          real, p->weights != CLATTN_MHA_WEIGHTS_NONE },
    };
    for (int i = 0; i < MHA_ARRAYS; ++i) {
        struct layer_array *array = &problem->arrays[i];
        clattn_status status =
            layer_array_set(array, rows[i].name, rows[i].dims, rows[i].shape, rows[i].element_bytes);
        if (status != CLATTN_OK) {
            return status;
        }
        array->required = rows[i].required;
        array->output = i == MHA_Y || i == MHA_WEIGHTS;
        array->is_weight = i >= MHA_WQ && i <= MHA_BO;
    }
    return CLATTN_OK;
}

clattn_status mha_problem_init(struct mha_problem *problem, const clattn_mha_problem *given)
{
    clattn_mha_problem *p = &problem->p;
    memset(problem, 0, sizeof(*problem));
    clattn_status status =
        layer_copy_struct(p, sizeof(*p), given, "problem", "CLATTN_MHA_PROBLEM_INIT");
    if (status == CLATTN_OK) {
        status = check_kinds(p);
    }
    if (status == CLATTN_OK) {
        status = resolve_dimensions(p);
    }
    if (status == CLATTN_OK) {
        status = init_attention(problem, p->strategy);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    p->strategy = NULL;
    problem->query_dim = p->query_heads * p->head_dim;
    problem->key_dim = p->kv_heads * p->head_dim;
    problem->value_dim = p->kv_heads * p->head_dim_v;
    problem->heads_dim = p->query_heads * p->head_dim_v;
    return describe_arrays(problem);
}

int64_t mha_call_count(const struct mha_problem *problem, const struct mha_call *call, enum mha_array id)
{
    return id == MHA_MASK ? call->mask.count : problem->arrays[id].count;
}

static clattn_status check_given(const struct mha_problem *problem, struct mha_call *call)
{
    clattn_status status = CLATTN_OK;
    call->mask = problem->arrays[MHA_MASK];
    if (call->mask.required) {
        status = layer_mask_strides(&call->mask, call->mask_stride);
    }
    for (int i = 0; i < MHA_ARRAYS && status == CLATTN_OK; ++i) {
        const struct layer_place *place = &call->places[i];
        status = layer_check_given(&problem->arrays[i], place->buffer || place->data);
        if (status == CLATTN_OK && place->offset < 0) {
            status = error_set(CLATTN_INVALID_ARGUMENT, "%s.offset %" PRId64 ": must be >= 0",
                               problem->arrays[i].name, place->offset);
        }
    }
    return status;
}

clattn_status mha_call_from_device(const struct mha_problem *problem, const clattn_mha_arrays *arrays,
                                   struct mha_call *call)
{
    clattn_mha_arrays a;
    clattn_status status =
        layer_copy_struct(&a, sizeof(a), arrays, "arrays", "CLATTN_MHA_ARRAYS_INIT");
    if (status != CLATTN_OK) {
        return status;
    }
    const clattn_array given[MHA_ARRAYS] = { a.x,  a.context, a.y,  a.wq, a.wk,   a.wv,          a.wo,
                                             a.bq, a.bk,      a.bv, a.bo, a.mask, a.key_lengths, a.weights };
    memset(call, 0, sizeof(*call));
    for (int i = 0; i < MHA_ARRAYS; ++i) {
        call->places[i].buffer = given[i].buffer;
        call->places[i].offset = given[i].offset;
    }
    memcpy(call->mask_stride, a.mask_stride, sizeof(a.mask_stride));
    call->workspace = a.workspace;
    return check_given(problem, call);
}

static clattn_status check_host_values(const struct mha_problem *problem, const struct mha_call *call)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < MHA_ARRAYS && status == CLATTN_OK; ++i) {
        const struct layer_array *array = &problem->arrays[i];
        if (array->is_weight && array->required) {
            status = layer_check_finite(array, problem->p.type, call->places[i].data);
        }
    }
    const int32_t *lengths = call->places[MHA_KEY_LENGTHS].data;
    for (int64_t b = 0; lengths && b < problem->p.batch && status == CLATTN_OK; ++b) {
        if (lengths[b] < 0 || lengths[b] > problem->p.context_rows) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "key_lengths[%" PRId64 "] %d: must be 0 to context_rows %" PRId64, b,
                               (int)lengths[b], problem->p.context_rows);
        }
    }
    return status;
}

clattn_status mha_call_from_host(const struct mha_problem *problem,
                                 const clattn_mha_host_arrays *arrays, struct mha_call *call)
{
    clattn_mha_host_arrays a;
    clattn_status status =
        layer_copy_struct(&a, sizeof(a), arrays, "arrays", "CLATTN_MHA_HOST_ARRAYS_INIT");
    if (status != CLATTN_OK) {
        return status;
    }
    const void *given[MHA_ARRAYS] = { a.x,  a.context, a.y,  a.wq, a.wk,   a.wv,          a.wo,
                                      a.bq, a.bk,      a.bv, a.bo, a.mask, a.key_lengths, a.weights };
    memset(call, 0, sizeof(*call));
    for (int i = 0; i < MHA_ARRAYS; ++i) {
        memcpy(&call->places[i].data, &given[i], sizeof(given[i])); /* inputs are only read */
    }
    memcpy(call->mask_stride, a.mask_stride, sizeof(a.mask_stride));
    status = check_given(problem, call);
    return status == CLATTN_OK ? check_host_values(problem, call) : status;
}
