/* The table of the backward operation; validation of its problems and calls. */
#include "operation/backward.h"

#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "base/text.h"
#include "operation/fill_params.h"
#include "operation/forward_rows.h"
#include "operation/pools.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

enum gradient_element {
    ELEMENT_DQUERY = FORWARD_ELEMENTS,
    ELEMENT_DKEY,
    ELEMENT_DVALUE,
    ELEMENT_DBIAS,
    BACKWARD_ELEMENTS
};

static const struct tensor_row tensor_rows[BACKWARD_TENSOR_COUNT] = {
#define FORWARD_ROW(id, field, axes, element, access, place, asked_by)                                                 \
    PLACED_ROW(field, axes, element, IN, place, clattn_tensors, clattn_host_tensors),
#define GRADIENT_ROW(id, field, axes, element, access, place, asked_by)                                                \
    PLACED_ROW(field, axes, element, access, place, clattn_gradients, clattn_host_gradients),
#define TEXT_ROW(number) CODE_ROW(number),
    CLATTN_FORWARD_TENSORS(FORWARD_ROW) CLATTN_CODE_TENSORS(TEXT_ROW) CLATTN_GRADIENT_TENSORS(GRADIENT_ROW)
#undef FORWARD_ROW
#undef TEXT_ROW
#undef GRADIENT_ROW
};

ROWS_HAVE_ROOM(BACKWARD_TENSOR_COUNT, FORWARD_EXTENTS, BACKWARD_ELEMENTS);

/* CLATTN_GRADIENT_* of the tensors behind the forward's. */
#define ALWAYS 0
#define FEATURE(name) 0
#define GRADIENT(name) CLATTN_GRADIENT_##name
#define GRADIENT_OF(name, asked_by) CLATTN_GRADIENT_##name
#define ROW(id, field, axes, element, access, place, asked_by) { asked_by, #field },
static const struct gradient_row gradient_rows[] = { CLATTN_GRADIENT_TENSORS(ROW) };
#undef ROW
#undef ALWAYS
#undef FEATURE
#undef GRADIENT
#undef GRADIENT_OF
static const struct gradients known_gradients = { "CLATTN_GRADIENT", ALL_TENSOR_COUNT,
                                                  BACKWARD_TENSOR_COUNT - ALL_TENSOR_COUNT, gradient_rows };

/* ---- problem ---------------------------------------------------------------------------------- */

/* What the forward must have. */
static const struct {
    uint32_t gradient, flag;
    const char *name;
} needed[] = {
#define ALWAYS
#define FEATURE(name)
#define GRADIENT(name)
#define GRADIENT_OF(name, asked_by) { CLATTN_GRADIENT_##name, CLATTN_FLAG_##name, asked_by },
#define ROW(id, field, axes, element, access, place, asked_by) asked_by
    CLATTN_GRADIENT_TENSORS(ROW)
#undef ROW
#undef ALWAYS
#undef FEATURE
#undef GRADIENT
#undef GRADIENT_OF
};

clattn_status gradients_check_flags(uint32_t flags)
{
    const uint32_t known = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_KEY_LISTS;
    const uint32_t unknown = flags & ~known;
    struct text names = TEXT_INIT;
    clattn_status status = CLATTN_OK;
    if (unknown) {
        forward_flags_describe(unknown, &names);
        status = error_set(CLATTN_UNSUPPORTED, "forward: there are no gradients of a problem with %s",
                           names.data ? names.data : "");
    }
    text_free(&names);
    return status;
}

/* Gradients are of what is stored as floating-point numbers, all of it at once. */
static clattn_status check_keys(const clattn_problem *p)
{
    const struct {
        const char *name;
        clattn_type type;
    } stored[] = { { "key_type", p->key_type }, { "value_type", p->value_type } };
    for (size_t i = 0; i < 2; ++i) {
        if (!type_is_float(stored[i].type)) {
            return error_set(CLATTN_UNSUPPORTED, "%s %s: there are gradients of float32, float16, bfloat16 and float64",
                             stored[i].name, clattn_type_name(stored[i].type));
        }
    }
    if (p->value_in_key) {
        return error_set(CLATTN_UNSUPPORTED,
                         "value_in_key: gradients are of keys and values apart; give value as a view "
                         "of key, and add dvalue to the columns of dkey");
    }
    return p->ring == 0
               ? CLATTN_OK
               : error_set(CLATTN_UNSUPPORTED, "ring %lld: keys that a ring no longer has would lack their gradients",
                           (long long)p->ring);
}

static clattn_status check_gradients(const struct backward_problem *b)
{
    const clattn_status status = gradients_check(&known_gradients, b->p.gradients, b->p.accumulate);
    if (status != CLATTN_OK) {
        return status;
    }
    if (b->p.features & ~(uint32_t)CLATTN_WITH_DLSE) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features 0x%x: bits 0x%x are not known", b->p.features,
                         b->p.features & ~(uint32_t)CLATTN_WITH_DLSE);
    }
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); ++i) {
        if (b->p.gradients & needed[i].gradient && !(b->attention.flags & needed[i].flag)) {
            return error_set(CLATTN_INVALID_ARGUMENT, "gradients 0x%x: %s needs %s in the forward problem",
                             b->p.gradients, gradients_name(&known_gradients, needed[i].gradient), needed[i].name);
        }
    }
    if (b->attention.p.weights != CLATTN_WEIGHTS_NONE) {
        return error_set(CLATTN_UNSUPPORTED, "weights %d: the weights output has no gradient; set CLATTN_WEIGHTS_NONE",
                         (int)b->attention.p.weights);
    }
    return CLATTN_OK;
}

static clattn_status resolve_types(struct backward_problem *b)
{
    const clattn_problem *p = &b->attention.p;
    const clattn_type given = b->p.gradient_type;
    const struct {
        uint32_t gradient;
        const char *is;
        clattn_type stored, *type;
    } types[] = {
        { CLATTN_GRADIENT_QUERY, "dquery is", p->type, &b->dquery_type },
        { CLATTN_GRADIENT_KEY, "dkey is", p->key_type, &b->dkey_type },
        { CLATTN_GRADIENT_VALUE, "dvalue is", p->value_type, &b->dvalue_type },
        { CLATTN_GRADIENT_BIAS, "dbias is", p->bias_type, &b->dbias_type },
    };
    clattn_status status = gradients_check_type(given, p->type);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && status == CLATTN_OK; ++i) {
        *types[i].type = given != CLATTN_TYPE_NONE ? given : types[i].stored;
        status = gradients_check_sums(b->p.accumulate & types[i].gradient, types[i].is, *types[i].type);
    }
    return status;
}

static clattn_status resolve(struct any_problem *any)
{
    struct backward_problem *b = (struct backward_problem *)any;
    if (!b->p.forward) {
        return error_set(CLATTN_INVALID_ARGUMENT, "forward: must point to the forward's problem");
    }
    clattn_status status = problem_init(&b->attention, b->p.forward);
    if (status != CLATTN_OK) {
        return status;
    }
    b->attention.any.operation = &operation_backward;
    b->attention.p.features |= CLATTN_WITH_LSE;
    b->attention.flags |= CLATTN_FLAG_LSE;
    b->p.forward = NULL;
    status = gradients_check_flags(b->attention.flags);
    if (status == CLATTN_OK) {
        status = check_keys(&b->attention.p);
    }
    if (status == CLATTN_OK && b->attention.flags & CLATTN_FLAG_SCORE_TEXT &&
        !user_code_has(b->attention.any.code, CLATTN_CODE_SCORE_SLOPE)) {
        status =
            error_set(CLATTN_UNSUPPORTED,
                      "code.functions 0x%x: gradients need the derivative of clattn_score; write clattn_score_slope "
                      "into code.source and set CLATTN_CODE_SCORE_SLOPE",
                      b->attention.any.code->p.functions);
    }
    if (status == CLATTN_OK) {
        status = check_gradients(b);
    }
    return status == CLATTN_OK ? resolve_types(b) : status;
}

static int equal(const struct any_problem *a, const struct any_problem *b)
{
    const struct backward_problem *x = backward_problem(a), *y = backward_problem(b);
    return attention_problem_equal(a, b) && x->p.gradients == y->p.gradients && x->p.accumulate == y->p.accumulate &&
           x->p.features == y->p.features && x->dquery_type == y->dquery_type && x->dkey_type == y->dkey_type &&
           x->dvalue_type == y->dvalue_type && x->dbias_type == y->dbias_type;
}

static void describe(const struct any_problem *any, struct text *text)
{
    const struct backward_problem *b = backward_problem(any);
    attention_problem_describe(any, text);
    text_append(text, "; gradients");
    for (int i = 0; i < known_gradients.count; ++i) {
        if (b->p.gradients & known_gradients.rows[i].gradient) {
            text_append(text, " %s%s", b->p.accumulate & known_gradients.rows[i].gradient ? "+" : "",
                        known_gradients.rows[i].name);
        }
    }
    text_append(text, "%s", b->p.features & CLATTN_WITH_DLSE ? " with dlse" : "");
}

/* ---- calls ------------------------------------------------------------------------------------ */

void backward_ask(const struct backward_problem *b, struct operands *operands)
{
    operands_set_type(operands, ELEMENT_DQUERY, b->dquery_type);
    operands_set_type(operands, ELEMENT_DKEY, b->dkey_type);
    operands_set_type(operands, ELEMENT_DVALUE, b->dvalue_type);
    operands_set_type(operands, ELEMENT_DBIAS, b->dbias_type);
    operands->asked |= 1ull << GRADIENT_DOUT | (b->p.features & CLATTN_WITH_DLSE ? 1ull << GRADIENT_DLSE : 0);
    gradients_ask(&known_gradients, b->p.gradients, b->p.accumulate, operands);
}

static clattn_status measure(const struct any_problem *problem, const void *values, struct operands *operands)
{
    const struct backward_problem *b = backward_problem(problem);
    const clattn_status status = call_measure(problem, values, operands);
    backward_ask(b, operands);
    if (status == CLATTN_OK && b->p.gradients & CLATTN_GRADIENT_BIAS && attention_call(operands)->mask_first_key > 0) {
        return error_set(CLATTN_UNSUPPORTED,
                         "mask_first_key %lld: a gradient of the bias is of all keys; give a bias of all, or leave "
                         "CLATTN_GRADIENT_BIAS out",
                         (long long)attention_call(operands)->mask_first_key);
    }
    return status;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH_ELSEWHERE(clattn_tensors);
GROWTH_ELSEWHERE(clattn_host_tensors);
GROWTH(clattn_backward_problem, "problem", gradients, strategy, CLATTN_BACKWARD_PROBLEM_INIT);

/* From the first tensor on, each field has a row of the table. */
#define GRADIENTS_BYTES(type, tensor)                                                                                  \
    (offsetof(type, dout) + (BACKWARD_TENSOR_COUNT - ALL_TENSOR_COUNT) * sizeof(tensor))
static const clattn_gradients clattn_gradients_defaults = CLATTN_GRADIENTS_INIT;
static const clattn_host_gradients clattn_host_gradients_defaults = CLATTN_HOST_GRADIENTS_INIT;
GROWTH_OF_BYTES(clattn_gradients, "gradients", "CLATTN_GRADIENTS_INIT", dvalue,
                GRADIENTS_BYTES(clattn_gradients, clattn_tensor));
GROWTH_OF_BYTES(clattn_host_gradients, "gradients", "CLATTN_HOST_GRADIENTS_INIT", dvalue,
                GRADIENTS_BYTES(clattn_host_gradients, clattn_host_tensor));

const struct operation operation_backward = {
    .name = "backward",
    .rows = tensor_rows,
    .count = BACKWARD_TENSOR_COUNT,
    .workspace_function = "clattn_plan_workspace",
    PROBLEM_OF(struct backward_problem, clattn_backward_problem),
    .resolve = resolve,
    .equal = equal,
    .describe = describe,
    .flags = attention_problem_flags,
    .describe_flags = forward_flags_describe,
    .tensors = { TENSORS_OF(clattn_tensors, clattn_host_tensors, ALL_TENSOR_COUNT, 0),
                 TENSORS_OF(clattn_gradients, clattn_host_gradients, BACKWARD_TENSOR_COUNT - ALL_TENSOR_COUNT,
                            offsetof(clattn_gradients, workspace)) },
    .refuse = pools_refuse,
    .measure = measure,
    .check_values = call_check_values,
    .reference = reference_backward,
};
