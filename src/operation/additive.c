/* Validation of additive attention. */
#include "operation/additive.h"

#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "operation/additive_rows.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

static const struct tensor_row tensor_rows[ADDITIVE_TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    TENSOR_ROW(field, axes, element, access, place, clattn_additive_arrays, clattn_additive_host_arrays, none),
    ADDITIVE_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(ADDITIVE_TENSOR_COUNT, ADDITIVE_EXTENTS, ADDITIVE_ELEMENTS);

const struct operation operation_additive = {
    .name = "additive attention",
    .rows = tensor_rows,
    .count = ADDITIVE_TENSOR_COUNT,
    .workspace_function = "clattn_additive_workspace",
};

/* ---- growth ----------------------------------------------------------------------------------- */

GROWTH(clattn_additive_problem, "problem", value_dim, strategy, CLATTN_ADDITIVE_PROBLEM_INIT);
GROWTH(clattn_additive_arrays, "arrays", out, mask, CLATTN_ADDITIVE_ARRAYS_INIT);
GROWTH(clattn_additive_host_arrays, "arrays", out, mask, CLATTN_ADDITIVE_HOST_ARRAYS_INIT);

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

static clattn_status init_attention(struct additive_problem *problem, const char *strategy)
{
    clattn_problem attention = additive_attention(&problem->p);
    attention.strategy = strategy;
    return problem_init(&problem->attention, &attention);
}

clattn_status additive_problem_init(struct additive_problem *problem, const clattn_additive_problem *given)
{
    clattn_additive_problem *p = &problem->p;
    memset(problem, 0, sizeof(*problem));
    clattn_status status = growth_copy(GROWTH_OF(clattn_additive_problem), given, p);
    if (status == CLATTN_OK) {
        p->key_dim = p->key_dim ? p->key_dim : p->query_dim;
        status = check_kinds(p);
    }
    if (status == CLATTN_OK) {
        status = init_attention(problem, p->strategy);
    }
    p->strategy = NULL;
    return status;
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

void additive_measure(const struct additive_problem *problem, const struct operation *operation,
                      struct operands *operands)
{
    const clattn_additive_problem *p = &problem->p;
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
    const clattn_type types[ADDITIVE_ELEMENTS] = { [ELEMENT_TYPE] = p->type, [ELEMENT_FLOAT] = CLATTN_FLOAT32 };
    const size_t bytes[ADDITIVE_ELEMENTS] = { [ELEMENT_TYPE] = clattn_type_size(p->type),
                                              [ELEMENT_FLOAT] = sizeof(float),
                                              [ELEMENT_BYTE] = 1,
                                              [ELEMENT_INT] = sizeof(int32_t) };
    operands_begin(operands, operation);
    operands->asked = asked_of(p);
    memcpy(operands->extent, extents, sizeof(extents));
    memcpy(operands->element, types, sizeof(types));
    memcpy(operands->element_bytes, bytes, sizeof(bytes));
}

clattn_status additive_copy_arrays(const clattn_additive_arrays *given, clattn_additive_arrays *known)
{
    return growth_copy(GROWTH_OF(clattn_additive_arrays), given, known);
}

clattn_status additive_copy_host_arrays(const clattn_additive_host_arrays *given, clattn_additive_host_arrays *known)
{
    return growth_copy(GROWTH_OF(clattn_additive_host_arrays), given, known);
}

clattn_status additive_check_host_values(const struct additive_problem *problem, const struct operands *operands)
{
    const clattn_status status = operands_check_finite(operands);
    return status == CLATTN_OK ? operands_check_lengths(operands, ADDITIVE_KEY_LENGTHS, "keys", problem->p.keys)
                               : status;
}

clattn_status additive_call_from_device(const struct additive_problem *problem, const clattn_additive_arrays *arrays,
                                        struct operands *operands)
{
    clattn_additive_arrays known;
    clattn_status status = additive_copy_arrays(arrays, &known);
    if (status != CLATTN_OK) {
        return status;
    }
    additive_measure(problem, &operation_additive, operands);
    operands_read_device(operands, &known);
    operands->workspace = known.workspace;
    return operands_check(operands);
}

clattn_status additive_call_from_host(const struct additive_problem *problem, const clattn_additive_host_arrays *arrays,
                                      struct operands *operands)
{
    clattn_additive_host_arrays known;
    clattn_status status = additive_copy_host_arrays(arrays, &known);
    if (status != CLATTN_OK) {
        return status;
    }
    additive_measure(problem, &operation_additive, operands);
    operands_read_host(operands, &known);
    status = operands_check(operands);
    return status == CLATTN_OK ? additive_check_host_values(problem, operands) : status;
}
