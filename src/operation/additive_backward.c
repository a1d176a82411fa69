/* The table of the gradients of additive attention; validation of their problems and calls. */
#include "operation/additive_backward.h"

#include <string.h>

#include "base/error.h"
#include "operation/additive_rows.h"
#include "operation/field_rules.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

enum additive_gradient_element { ELEMENT_GRADIENT = ADDITIVE_ELEMENTS, ADDITIVE_BACKWARD_ELEMENTS };

static const struct tensor_row tensor_rows[ADDITIVE_BACKWARD_TENSOR_COUNT] = {
#define LAYER_ROW(id, field, axes, element, access, place, asked_by)                                                   \
    TENSOR_ROW(field, axes, element, access, place, clattn_additive_arrays, clattn_additive_host_arrays, none),
#define GRADIENT_ROW(id, field, axes, element, access, place, asked_by)                                                \
    TENSOR_ROW(field, axes, element, access, place, clattn_additive_gradients, clattn_additive_host_gradients, none),
    ADDITIVE_TENSORS(LAYER_ROW) ADDITIVE_GRADIENT_TENSORS(GRADIENT_ROW)
#undef LAYER_ROW
#undef GRADIENT_ROW
};

ROWS_HAVE_ROOM(ADDITIVE_BACKWARD_TENSOR_COUNT, ADDITIVE_EXTENTS, ADDITIVE_BACKWARD_ELEMENTS);

/* CLATTN_ADDITIVE_GRADIENT_* of the tensors behind the layer's. */
#define ALWAYS 0
#define GRADIENT(name) CLATTN_ADDITIVE_GRADIENT_##name
#define ROW(id, field, axes, element, access, place, asked_by) { asked_by, #field },
static const struct gradient_row gradient_rows[] = { ADDITIVE_GRADIENT_TENSORS(ROW) };
#undef ROW
static const struct gradients known_gradients = { "CLATTN_ADDITIVE_GRADIENT", ADDITIVE_TENSOR_COUNT,
                                                  ADDITIVE_BACKWARD_TENSOR_COUNT - ADDITIVE_TENSOR_COUNT,
                                                  gradient_rows };

/* ---- problem ---------------------------------------------------------------------------------- */

static clattn_status check_gradients(const struct additive_backward_problem *b)
{
    clattn_status status = gradients_check(&known_gradients, b->p.gradients, b->p.accumulate);
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

static clattn_status resolve_type(struct additive_backward_problem *b)
{
    const clattn_type given = b->p.gradient_type;
    const clattn_status status = gradients_check_type(given, b->layer.p.type);
    b->type = given != CLATTN_TYPE_NONE ? given : b->layer.p.type;
    return status == CLATTN_OK ? gradients_check_sums(b->p.accumulate, "gradients are", b->type) : status;
}

static clattn_status init_attention(struct additive_backward_problem *b)
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
    backward.strategy = b->p.strategy;
    return status == CLATTN_OK && additive_backward_wants(b, CLATTN_ADDITIVE_GRADIENT_VALUE)
               ? backward_problem_init(&b->backward, &backward)
               : status;
}

static clattn_status resolve(struct any_problem *any)
{
    struct additive_backward_problem *b = (struct additive_backward_problem *)any;
    if (!b->p.forward) {
        return error_set(CLATTN_INVALID_ARGUMENT, "forward: must point to the problem of additive attention");
    }
    clattn_status status = any_problem_init(&b->layer.any, &operation_additive, b->p.forward);
    b->layer.any.operation = &operation_additive_backward;
    b->p.forward = NULL;
    if (status == CLATTN_OK) {
        status = check_gradients(b);
    }
    if (status == CLATTN_OK) {
        status = resolve_type(b);
    }
    return status == CLATTN_OK ? init_attention(b) : status;
}

/* ---- calls ------------------------------------------------------------------------------------ */

static clattn_status measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const struct additive_backward_problem *b = additive_backward_problem_of(any);
    const clattn_status status = additive_measure(any, values, operands);
    operands->asked = (operands->asked & ~(1ull << ADDITIVE_OUT)) | 1ull << ADDITIVE_DOUT;
    gradients_ask(&known_gradients, b->p.gradients, b->p.accumulate, operands);
    operands_set_type(operands, ELEMENT_GRADIENT, b->type);
    return status;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH_ELSEWHERE(clattn_additive_arrays);
GROWTH_ELSEWHERE(clattn_additive_host_arrays);
GROWTH(clattn_additive_backward_problem, "problem", gradients, strategy, CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT);
GROWTH(clattn_additive_gradients, "gradients", dvalue, dscore, CLATTN_ADDITIVE_GRADIENTS_INIT);
GROWTH(clattn_additive_host_gradients, "gradients", dvalue, dscore, CLATTN_ADDITIVE_HOST_GRADIENTS_INIT);

const struct operation operation_additive_backward = {
    .name = "additive attention's gradients",
    .rows = tensor_rows,
    .count = ADDITIVE_BACKWARD_TENSOR_COUNT,
    .workspace_function = "clattn_additive_backward_workspace",
    PROBLEM_OF(struct additive_backward_problem, clattn_additive_backward_problem),
    .resolve = resolve,
    .tensors = { TENSORS_OF(clattn_additive_arrays, clattn_additive_host_arrays, ADDITIVE_TENSOR_COUNT, 0),
                 TENSORS_OF(clattn_additive_gradients, clattn_additive_host_gradients,
                            ADDITIVE_BACKWARD_TENSOR_COUNT - ADDITIVE_TENSOR_COUNT,
                            offsetof(clattn_additive_gradients, workspace)) },
    .unlooked = 1u << ADDITIVE_OUT | 1u << ADDITIVE_WEIGHTS,
    .measure = measure,
    .check_values = additive_check_values,
    .reference = reference_additive_backward,
};
