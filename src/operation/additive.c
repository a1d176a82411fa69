/* Validation of additive attention. */
#include "operation/additive.h"

#include <string.h>

#include "base/error.h"
#include "operation/additive_rows.h"
#include "operation/field_rules.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

static const struct tensor_row tensor_rows[ADDITIVE_TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    TENSOR_ROW(field, axes, element, access, place, clattn_additive_arrays, clattn_additive_host_arrays, none),
    ADDITIVE_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(ADDITIVE_TENSOR_COUNT, ADDITIVE_EXTENTS, ADDITIVE_ELEMENTS);

/* ---- problem ---------------------------------------------------------------------------------- */

static clattn_status check_kinds(const clattn_additive_problem *p)
{
    if (p->type == CLATTN_FLOAT64) {
        return error_set(CLATTN_UNSUPPORTED, "type float64: additive attention has float32, float16 and "
                                             "bfloat16");
    }
    if (p->features & ~(uint32_t)(CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features 0x%x: additive attention takes CLATTN_WITH_MASK and "
                         "CLATTN_WITH_KEY_LENGTHS",
                         p->features);
    }
    if (p->alignment == CLATTN_ALIGN_OFFSETS) {
        return error_set(CLATTN_INVALID_ARGUMENT, "alignment CLATTN_ALIGN_OFFSETS: additive attention has no "
                                                  "offsets; use top left or bottom right");
    }
    const struct dimension dimensions[] = {
        { "batch", p->batch, 0 },         { "rows", p->rows, 0 },       { "keys", p->keys, 0 },
        { "query_dim", p->query_dim, 1 }, { "key_dim", p->key_dim, 1 }, { "hidden_dim", p->hidden_dim, 1 },
        { "value_dim", p->value_dim, 1 },
    };
    clattn_status status = check_tiled_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    const struct dimension rows = { "batch * rows", status == CLATTN_OK ? p->batch * p->rows : 0, 0 };
    return status == CLATTN_OK ? check_tiled_dimensions(&rows, 1) : status;
}

clattn_problem additive_attention(const clattn_additive_problem *p)
{
    clattn_problem attention = CLATTN_PROBLEM_INIT;
    attention.type = p->type;
    attention.batch = p->batch;
    attention.query_len = p->rows;
    attention.key_len = p->keys;
    attention.head_dim = 1;
    attention.head_dim_v = p->value_dim;
    attention.features = p->features;
    attention.bias_type = CLATTN_FLOAT32;
    attention.causal = p->causal;
    attention.alignment = p->alignment;
    attention.weights = p->weights ? CLATTN_WEIGHTS_SOFTMAX : CLATTN_WEIGHTS_NONE;
    return attention;
}

static clattn_status init_attention(struct additive_problem *problem)
{
    clattn_problem attention = additive_attention(&problem->p);
    attention.strategy = problem->p.strategy;
    return problem_init(&problem->attention, &attention);
}

static clattn_status resolve(struct any_problem *any)
{
    struct additive_problem *problem = (struct additive_problem *)any;
    clattn_additive_problem *p = &problem->p;
    p->key_dim = p->key_dim ? p->key_dim : p->query_dim;
    const clattn_status status = check_kinds(p);
    return status == CLATTN_OK ? init_attention(problem) : status;
}

/* ---- calls ------------------------------------------------------------------------------------ */

#define ALWAYS 1
#define FEATURE(name) ((p->features & CLATTN_WITH_##name) != 0)
#define FIELD(name) (p->name != 0)
#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << ADDITIVE_##id : 0)
static uint32_t asked_of(const clattn_additive_problem *p)
{
    return 0u ADDITIVE_TENSORS(ASKED_OF_ROW);
}

clattn_status additive_measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const clattn_additive_problem *p = &additive_problem_of(any)->p;
    const int64_t extents[ADDITIVE_EXTENTS] = {
        [EXTENT_ONE] = 1,
        [EXTENT_BATCH] = p->batch,
        [EXTENT_ROWS] = p->rows,
        [EXTENT_KEYS] = p->keys,
        [EXTENT_QUERY_DIM] = p->query_dim,
        [EXTENT_KEY_DIM] = p->key_dim,
        [EXTENT_VALUE_DIM] = p->value_dim,
        [EXTENT_HIDDEN_DIM] = p->hidden_dim,
    };
    operands->asked = asked_of(p);
    memcpy(operands->extent, extents, sizeof(extents));
    operands_set_type(operands, ELEMENT_TYPE, p->type);
    (void)values;
    return CLATTN_OK;
}

clattn_status additive_check_values(const struct any_problem *problem, const struct operands *operands)
{
    const int64_t keys = additive_problem_of(problem)->p.keys;
    const clattn_status status = operands_check_finite(operands);
    return status == CLATTN_OK ? operands_check_lengths(operands, ADDITIVE_KEY_LENGTHS, "keys", keys) : status;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH(clattn_additive_problem, "problem", value_dim, strategy, CLATTN_ADDITIVE_PROBLEM_INIT);
GROWTH(clattn_additive_arrays, "arrays", out, mask, CLATTN_ADDITIVE_ARRAYS_INIT);
GROWTH(clattn_additive_host_arrays, "arrays", out, mask, CLATTN_ADDITIVE_HOST_ARRAYS_INIT);

const struct operation operation_additive = {
    .name = "additive attention",
    .rows = tensor_rows,
    .count = ADDITIVE_TENSOR_COUNT,
    .workspace_function = "clattn_additive_workspace",
    PROBLEM_OF(struct additive_problem, clattn_additive_problem),
    .resolve = resolve,
    .tensors = { TENSORS_OF(clattn_additive_arrays, clattn_additive_host_arrays, ADDITIVE_TENSOR_COUNT,
                            offsetof(clattn_additive_arrays, workspace)) },
    .measure = additive_measure,
    .check_values = additive_check_values,
    .reference = reference_additive,
};
