/* Validation of a multi-head layer: every rule with a message that names the field, its value and the rule. */
#include "operation/mha.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "operation/field_rules.h"
#include "operation/mha_rows.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

static const struct tensor_row tensor_rows[MHA_TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    TENSOR_ROW(field, axes, element, access, place, clattn_mha_arrays, clattn_mha_host_arrays, none),
    MHA_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(MHA_TENSOR_COUNT, MHA_EXTENTS, MHA_ELEMENTS);

/* ---- problem ---------------------------------------------------------------------------------- */

static const uint32_t known_parts = CLATTN_MHA_CROSS | CLATTN_MHA_PACKED | CLATTN_MHA_BIASES;
static const uint32_t input_biases = CLATTN_MHA_BIAS_QUERY | CLATTN_MHA_BIAS_KEY | CLATTN_MHA_BIAS_VALUE;

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
                         "features 0x%x: a layer takes CLATTN_WITH_MASK and CLATTN_WITH_KEY_LENGTHS", p->features);
    }
    if ((int)p->weights < CLATTN_MHA_WEIGHTS_NONE || (int)p->weights > CLATTN_MHA_WEIGHTS_AVERAGE) {
        return error_set(CLATTN_INVALID_ARGUMENT, "weights %d: is not a clattn_mha_weights", (int)p->weights);
    }
    if ((int)p->projection < CLATTN_PROJECTION_AUTO || (int)p->projection > CLATTN_PROJECTION_CLBLAST) {
        return error_set(CLATTN_INVALID_ARGUMENT, "projection %d: is not a clattn_projection", (int)p->projection);
    }
    if (p->alignment == CLATTN_ALIGN_OFFSETS) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "alignment CLATTN_ALIGN_OFFSETS: a layer has no offsets; use top left or bottom "
                         "right");
    }
    if (has(p, CLATTN_MHA_PACKED) && has(p, input_biases) && (p->parts & input_biases) != input_biases) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "parts 0x%x: packed weights have the biases of query, key and value, or none", p->parts);
    }
    return problem_check_scale(p->has_scale, p->scale);
}

static clattn_status resolve_context(clattn_mha_problem *p)
{
    if (!has(p, CLATTN_MHA_CROSS)) {
        if (p->context_rows != 0 && p->context_rows != p->rows) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "context_rows %" PRId64 ": must be 0 or rows %" PRId64 " without CLATTN_MHA_CROSS",
                             p->context_rows, p->rows);
        }
        if (p->context_dim != 0 && p->context_dim != p->model_dim) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "context_dim %" PRId64 ": must be 0 or model_dim %" PRId64 " without CLATTN_MHA_CROSS",
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
    const struct dimension factors[] = {
        { "batch * rows", p->batch * p->rows, 0 },  { "batch * context_rows", p->batch * p->context_rows, 0 },
        { "query_heads * head_dim", query_dim, 1 }, { "query_heads * head_dim_v", p->query_heads * p->head_dim_v, 1 },
        { "kv_heads * head_dim_v", value_dim, 1 },
    };
    clattn_status status = check_tiled_dimensions(factors, sizeof(factors) / sizeof(factors[0]));
    if (status != CLATTN_OK) {
        return status;
    }
    const struct dimension packed = { "(query_heads + kv_heads) * head_dim + kv_heads * head_dim_v",
                                      query_dim + key_dim + value_dim, 1 };
    return check_tiled_dimensions(&packed, 1);
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
                             "model_dim %" PRId64 ": must be a multiple of query_heads %" PRId64 ", or head_dim be set",
                             p->model_dim, p->query_heads);
        }
        p->head_dim = p->model_dim / p->query_heads;
    }
    p->head_dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    p->out_dim = p->out_dim ? p->out_dim : p->model_dim;
    const struct dimension dimensions[] = {
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
    status = check_tiled_dimensions(dimensions, count);
    return status == CLATTN_OK ? check_products(p) : status;
}

clattn_problem mha_attention(const clattn_mha_problem *p)
{
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
    return attention;
}

static clattn_status init_attention(struct mha_problem *problem)
{
    clattn_problem attention = mha_attention(&problem->p);
    attention.strategy = problem->p.strategy;
    return problem_init(&problem->attention, &attention);
}

static clattn_status resolve(struct any_problem *any)
{
    struct mha_problem *problem = (struct mha_problem *)any;
    clattn_mha_problem *p = &problem->p;
    clattn_status status = check_kinds(p);
    if (status == CLATTN_OK) {
        status = resolve_dimensions(p);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    problem->query_dim = p->query_heads * p->head_dim;
    problem->key_dim = p->kv_heads * p->head_dim;
    problem->value_dim = p->kv_heads * p->head_dim_v;
    problem->heads_dim = p->query_heads * p->head_dim_v;
    return init_attention(problem);
}

/* ---- calls ------------------------------------------------------------------------------------ */

#define ALWAYS 1
#define PART(name) has(p, CLATTN_MHA_##name)
#define NOT_PACKED !has(p, CLATTN_MHA_PACKED)
#define SEPARATE(name) (NOT_PACKED && PART(name))
#define FEATURE(name) ((p->features & CLATTN_WITH_##name) != 0)
#define FIELD(name) (p->name != 0)
#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << MHA_##id : 0)
static uint32_t asked_of(const clattn_mha_problem *p)
{
    return 0u MHA_TENSORS(ASKED_OF_ROW);
}

clattn_status mha_measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const struct mha_problem *problem = mha_problem_of(any);
    const clattn_mha_problem *p = &problem->p;
    const int packed = has(p, CLATTN_MHA_PACKED);
    const int64_t extents[MHA_EXTENTS] = {
        [EXTENT_ONE] = 1,
        [EXTENT_BATCH] = p->batch,
        [EXTENT_ROWS] = p->rows,
        [EXTENT_CONTEXT_ROWS] = p->context_rows,
        [EXTENT_MODEL_DIM] = p->model_dim,
        [EXTENT_CONTEXT_DIM] = p->context_dim,
        [EXTENT_OUT_DIM] = p->out_dim,
        [EXTENT_FIRST_DIM] = problem->query_dim + (packed ? problem->key_dim + problem->value_dim : 0),
        [EXTENT_KEY_DIM] = problem->key_dim,
        [EXTENT_VALUE_DIM] = problem->value_dim,
        [EXTENT_HEADS_DIM] = problem->heads_dim,
        [EXTENT_QUERY_HEADS] = p->query_heads,
        [EXTENT_WEIGHT_HEADS] = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE ? 1 : p->query_heads,
    };
    operands->asked = asked_of(p);
    memcpy(operands->extent, extents, sizeof(extents));
    operands_set_type(operands, ELEMENT_TYPE, p->type);
    operands_set_type(operands, ELEMENT_REAL, p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32);
    (void)values;
    return CLATTN_OK;
}

clattn_status mha_check_values(const struct any_problem *problem, const struct operands *operands)
{
    const int64_t keys = mha_problem_of(problem)->p.context_rows;
    const clattn_status status = operands_check_finite(operands);
    return status == CLATTN_OK ? operands_check_lengths(operands, MHA_KEY_LENGTHS, "context_rows", keys) : status;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH(clattn_mha_problem, "problem", query_heads, strategy, CLATTN_MHA_PROBLEM_INIT);
GROWTH(clattn_mha_arrays, "arrays", wo, mask, CLATTN_MHA_ARRAYS_INIT);
GROWTH(clattn_mha_host_arrays, "arrays", wo, mask, CLATTN_MHA_HOST_ARRAYS_INIT);

const struct operation operation_mha = {
    .name = "multi-head layer",
    .rows = tensor_rows,
    .count = MHA_TENSOR_COUNT,
    .workspace_function = "clattn_mha_workspace",
    PROBLEM_OF(struct mha_problem, clattn_mha_problem),
    .resolve = resolve,
    .tensors = { TENSORS_OF(clattn_mha_arrays, clattn_mha_host_arrays, MHA_TENSOR_COUNT,
                            offsetof(clattn_mha_arrays, workspace)) },
    .measure = mha_measure,
    .check_values = mha_check_values,
    .reference = reference_mha,
};
