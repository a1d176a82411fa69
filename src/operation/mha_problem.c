/* Validation of a multi-head layer: every rule with a message that names the field, its value and the rule. */
#include "operation/mha_problem.h"

#include <inttypes.h>
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
    return problem_check_scale(p->has_scale, p->scale);
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

static clattn_status describe_arrays(struct mha_problem *problem)
{
    const clattn_mha_problem *p = &problem->p;
    const int64_t q = problem->query_dim, k = problem->key_dim, v = problem->value_dim;
    const int packed = has(p, CLATTN_MHA_PACKED), average = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE;
    const int64_t first = packed ? q + k + v : q;
    const size_t size = clattn_type_size(p->type), real = p->type == CLATTN_FLOAT64 ? 8 : 4;
    const struct layer_array arrays[MHA_ARRAYS] = {
        [MHA_X] = { "x", LAYER_INPUT, 3, { p->batch, p->rows, p->model_dim, 0 }, size, 1, 0 },
        [MHA_CONTEXT] = { "context", LAYER_INPUT, 3, { p->batch, p->context_rows, p->context_dim,
                          0 }, size, has(p, CLATTN_MHA_CROSS), 0 },
        [MHA_Y] = { "y", LAYER_OUTPUT, 3, { p->batch, p->rows, p->out_dim, 0 }, size, 1, 0 },
        [MHA_WQ] = { "wq", LAYER_WEIGHT, 2, { first, p->model_dim, 0, 0 }, size, 1, 0 },
        [MHA_WK] = { "wk", LAYER_WEIGHT, 2, { k, p->context_dim, 0, 0 }, size, !packed, 0 },
        [MHA_WV] = { "wv", LAYER_WEIGHT, 2, { v, p->context_dim, 0, 0 }, size, !packed, 0 },
        [MHA_WO] = { "wo", LAYER_WEIGHT, 2, { p->out_dim, problem->heads_dim, 0, 0 }, size, 1, 0 },
        [MHA_BQ] = { "bq", LAYER_WEIGHT, 1, { first, 0, 0, 0 },
                     size, has(p, CLATTN_MHA_BIAS_QUERY), 0 },
        [MHA_BK] = { "bk", LAYER_WEIGHT, 1, { k, 0, 0, 0 },
                     size, !packed && has(p, CLATTN_MHA_BIAS_KEY), 0 },
        [MHA_BV] = { "bv", LAYER_WEIGHT, 1, { v, 0, 0, 0 },
                     size, !packed && has(p, CLATTN_MHA_BIAS_VALUE), 0 },
        [MHA_BO] = { "bo", LAYER_WEIGHT, 1, { p->out_dim, 0, 0, 0 },
                     size, has(p, CLATTN_MHA_BIAS_OUT), 0 },
        [MHA_MASK] = { "mask", LAYER_INPUT, 4, { p->batch, p->query_heads, p->rows,
                       p->context_rows }, 1, (p->features & CLATTN_WITH_MASK) != 0, 0 },
        [MHA_KEY_LENGTHS] = { "key_lengths", LAYER_INPUT, 1, { p->batch, 0, 0, 0 },
                              4, (p->features & CLATTN_WITH_KEY_LENGTHS) != 0, 0 },
        [MHA_WEIGHTS] = { "weights", LAYER_OUTPUT, 4, { p->batch, average ? 1 : p->query_heads,
                          p->rows, p->context_rows }, real, p->weights != CLATTN_MHA_WEIGHTS_NONE, 0 },
    };
    memcpy(problem->arrays, arrays, sizeof(arrays));
    return layer_describe(problem->arrays, MHA_ARRAYS);
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
    return status == CLATTN_OK ? layer_check_places(problem->arrays, call->places, MHA_ARRAYS) : status;
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
    layer_places_on_device(given, MHA_ARRAYS, call->places);
    memcpy(call->mask_stride, a.mask_stride, sizeof(a.mask_stride));
    call->workspace = a.workspace;
    return check_given(problem, call);
}

static clattn_status check_host_values(const struct mha_problem *problem,
                                       const struct mha_call *call)
{
    clattn_status status =
        layer_check_weights(problem->arrays, call->places, MHA_ARRAYS, problem->p.type);
    const int32_t *lengths = call->places[MHA_KEY_LENGTHS].data;
    return status == CLATTN_OK ? layer_check_key_lengths(lengths, problem->p.batch, "context_rows",
                                                         problem->p.context_rows)
                               : status;
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
    layer_places_on_host(given, MHA_ARRAYS, call->places);
    memcpy(call->mask_stride, a.mask_stride, sizeof(a.mask_stride));
    status = check_given(problem, call);
    return status == CLATTN_OK ? check_host_values(problem, call) : status;
}
