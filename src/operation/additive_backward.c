/* The table of the gradients of additive attention; validation of their problems and calls. */
#include "operation/additive_backward.h"

#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "operation/additive_rows.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

enum additive_gradient_element { ELEMENT_GRADIENT = ADDITIVE_ELEMENTS, ADDITIVE_BACKWARD_ELEMENTS };

/* Both public structs of a call, side by side. */
struct device_arrays {
    clattn_additive_arrays layer;
    clattn_additive_gradients gradients;
};
struct host_arrays {
    clattn_additive_host_arrays layer;
    clattn_additive_host_gradients gradients;
};

static const struct tensor_row tensor_rows[ADDITIVE_BACKWARD_TENSOR_COUNT] = {
#define ROW(of, field, axes, element, access, place)                                                                   \
    MEMBER_ROW(field, of.field, axes, element, ROLE_##access, place, struct device_arrays, struct host_arrays, none),
#define LAYER_ROW(id, field, axes, element, access, place, asked_by) ROW(layer, field, axes, element, access, place)
#define GRADIENT_ROW(id, field, axes, element, access, place, asked_by)                                                \
    ROW(gradients, field, axes, element, access, place)
    ADDITIVE_TENSORS(LAYER_ROW) ADDITIVE_GRADIENT_TENSORS(GRADIENT_ROW)
#undef ROW
#undef LAYER_ROW
#undef GRADIENT_ROW
};

ROWS_HAVE_ROOM(ADDITIVE_BACKWARD_TENSOR_COUNT, ADDITIVE_EXTENTS, ADDITIVE_BACKWARD_ELEMENTS);

const struct operation operation_additive_backward = {
    .name = "additive attention's gradients",
    .rows = tensor_rows,
    .count = ADDITIVE_BACKWARD_TENSOR_COUNT,
    .workspace_function = "clattn_additive_backward_workspace",
};

#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << ADDITIVE_##id : 0)
#define ALWAYS 1
#define GRADIENT(name) additive_backward_wants(problem, CLATTN_ADDITIVE_GRADIENT_##name)
static uint32_t asked_of(const struct additive_backward_problem *problem)
{
    return 0u ADDITIVE_GRADIENT_TENSORS(ASKED_OF_ROW);
}
#undef ALWAYS
#undef GRADIENT

/* Gradients that are not added to what is there are written whole. */
#define ALWAYS 0
#define GRADIENT(name) !(problem->accumulate & CLATTN_ADDITIVE_GRADIENT_##name)
static uint32_t unread_of(const struct additive_backward_problem *problem)
{
    return 0u ADDITIVE_GRADIENT_TENSORS(ASKED_OF_ROW);
}
#undef ALWAYS
#undef GRADIENT

/* ---- problem ---------------------------------------------------------------------------------- */

GROWTH(clattn_additive_backward_problem, "problem", gradients, strategy, CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT);

static clattn_status check_gradients(const struct additive_backward_problem *b)
{
    clattn_status status = gradients_check(b->gradients, CLATTN_ADDITIVE_GRADIENT_VALUE | ADDITIVE_GRADIENTS_OF_SCORES,
                                           "CLATTN_ADDITIVE_GRADIENT");
    if (status == CLATTN_OK) {
        status = gradients_check_accumulate(b->accumulate, b->gradients);
    }
    if (status == CLATTN_OK && b->layer.p.weights) {
        status = error_set(CLATTN_UNSUPPORTED, "weights %d: the weights output has no gradient; set it to 0",
                           b->layer.p.weights);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    const struct dimension keys = { "batch * keys", b->layer.p.batch * b->layer.p.keys, 0 };
    return check_dimensions(&keys, 1);
}

static clattn_status resolve_type(struct additive_backward_problem *b, clattn_type given)
{
    const clattn_status status = gradients_check_type(given, b->layer.p.type);
    b->type = given != CLATTN_TYPE_NONE ? given : b->layer.p.type;
    if (status == CLATTN_OK && b->accumulate && b->type != CLATTN_FLOAT32) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "accumulate 0x%x: gradients are %s, and sums in 16 bits would lose what is added; set "
                         "gradient_type to CLATTN_FLOAT32",
                         b->accumulate, clattn_type_name(b->type));
    }
    return status;
}

static clattn_status init_attention(struct additive_backward_problem *b, const char *strategy)
{
    clattn_problem attention = additive_attention(&b->layer.p);
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    const char *forward_strategy = b->layer.attention.any.strategy_name;
    attention.type = CLATTN_FLOAT32;
    attention.features |= CLATTN_WITH_LSE;
    attention.strategy = *forward_strategy ? forward_strategy : NULL;
    const clattn_status status = problem_init(&b->forward, &attention);
    backward.forward = &attention;
    backward.gradients = CLATTN_GRADIENT_VALUE;
    backward.strategy = strategy;
    return status == CLATTN_OK && additive_backward_wants(b, CLATTN_ADDITIVE_GRADIENT_VALUE)
               ? backward_problem_init(&b->backward, &backward)
               : status;
}

clattn_status additive_backward_problem_init(struct additive_backward_problem *b,
                                             const clattn_additive_backward_problem *given)
{
    clattn_additive_backward_problem known;
    memset(b, 0, sizeof(*b));
    clattn_status status = growth_copy(GROWTH_OF(clattn_additive_backward_problem), given, &known);
    if (status == CLATTN_OK && !known.forward) {
        status = error_set(CLATTN_INVALID_ARGUMENT, "forward: must point to the problem of additive attention");
    }
    if (status == CLATTN_OK) {
        status = additive_problem_init(&b->layer, known.forward);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    b->gradients = known.gradients;
    b->accumulate = known.accumulate;
    status = check_gradients(b);
    if (status == CLATTN_OK) {
        status = resolve_type(b, known.gradient_type);
    }
    return status == CLATTN_OK ? init_attention(b, known.strategy) : status;
}

/* ---- calls ------------------------------------------------------------------------------------ */

GROWTH(clattn_additive_gradients, "gradients", dvalue, dscore, CLATTN_ADDITIVE_GRADIENTS_INIT);
GROWTH(clattn_additive_host_gradients, "gradients", dvalue, dscore, CLATTN_ADDITIVE_HOST_GRADIENTS_INIT);

/* Before the places are read. */
void additive_backward_measure(const struct additive_backward_problem *b, struct operands *operands)
{
    additive_measure(&b->layer, &operation_additive_backward, operands);
    operands->asked = (operands->asked & ~(1u << ADDITIVE_OUT)) | asked_of(b);
    operands->unread = unread_of(b);
    operands->element[ELEMENT_GRADIENT] = b->type;
    operands->element_bytes[ELEMENT_GRADIENT] = clattn_type_size(b->type);
}

clattn_status additive_backward_from_device(const struct additive_backward_problem *b,
                                            const clattn_additive_arrays *arrays,
                                            const clattn_additive_gradients *gradients, struct operands *operands)
{
    const clattn_array none = CLATTN_ARRAY_NONE;
    struct device_arrays known;
    clattn_status status = additive_copy_arrays(arrays, &known.layer);
    if (status == CLATTN_OK) {
        status = growth_copy(GROWTH_OF(clattn_additive_gradients), gradients, &known.gradients);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    known.layer.out = known.layer.weights = none;
    additive_backward_measure(b, operands);
    operands_read_device(operands, &known);
    operands->workspace = known.gradients.workspace;
    return operands_check(operands);
}

clattn_status additive_backward_from_host(const struct additive_backward_problem *b,
                                          const clattn_additive_host_arrays *arrays,
                                          const clattn_additive_host_gradients *gradients, struct operands *operands)
{
    struct host_arrays known;
    clattn_status status = additive_copy_host_arrays(arrays, &known.layer);
    if (status == CLATTN_OK) {
        status = growth_copy(GROWTH_OF(clattn_additive_host_gradients), gradients, &known.gradients);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    known.layer.out = NULL;
    known.layer.weights = NULL;
    additive_backward_measure(b, operands);
    operands_read_host(operands, &known);
    status = operands_check(operands);
    return status == CLATTN_OK ? additive_check_host_values(&b->layer, operands) : status;
}
