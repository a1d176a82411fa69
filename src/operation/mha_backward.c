/* The table of the multi-head layer's gradients; validation of their problems and calls. */
#include "operation/mha_backward.h"

#include <string.h>

#include "base/error.h"
#include "operation/mha_rows.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

enum mha_gradient_element { ELEMENT_GRADIENT = MHA_ELEMENTS, MHA_BACKWARD_ELEMENTS };

static const struct tensor_row tensor_rows[MHA_BACKWARD_TENSOR_COUNT] = {
#define LAYER_ROW(id, field, axes, element, access, place, asked_by)                                                   \
    TENSOR_ROW(field, axes, element, access, place, clattn_mha_arrays, clattn_mha_host_arrays, none),
#define GRADIENT_ROW(id, field, axes, element, access, place, asked_by)                                                \
    TENSOR_ROW(field, axes, element, access, place, clattn_mha_gradients, clattn_mha_host_gradients, none),
    MHA_TENSORS(LAYER_ROW) MHA_GRADIENT_TENSORS(GRADIENT_ROW)
#undef LAYER_ROW
#undef GRADIENT_ROW
};

ROWS_HAVE_ROOM(MHA_BACKWARD_TENSOR_COUNT, MHA_EXTENTS, MHA_BACKWARD_ELEMENTS);

/* CLATTN_MHA_GRADIENT_* of the tensors behind the layer's. */
#define ALWAYS 0
#define GRADIENT(name) CLATTN_MHA_GRADIENT_##name
#define ROW(id, field, axes, element, access, place, asked_by) { asked_by, #field },
static const struct gradient_row gradient_rows[] = { MHA_GRADIENT_TENSORS(ROW) };
#undef ROW
static const struct gradients known_gradients = { "CLATTN_MHA_GRADIENT", MHA_TENSOR_COUNT,
                                                  MHA_BACKWARD_TENSOR_COUNT - MHA_TENSOR_COUNT, gradient_rows };

/* ---- problem ---------------------------------------------------------------------------------- */

/* What the layer must have for a gradient, and whose gradients of attention that rests on. */
static const struct {
    uint32_t gradient;
    const char *needs;
    uint32_t part;         /* of the layer; 0: it always has it */
    int is_packed_with_wq; /* with packed weights there is none */
    uint32_t attention;
} needed[] = {
    { CLATTN_MHA_GRADIENT_X, "", 0, 0, CLATTN_GRADIENT_QUERY },
    { CLATTN_MHA_GRADIENT_CONTEXT, "CLATTN_MHA_CROSS", CLATTN_MHA_CROSS, 0,
      CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE },
    { CLATTN_MHA_GRADIENT_WQ, "", 0, 0, CLATTN_GRADIENT_QUERY },
    { CLATTN_MHA_GRADIENT_WK, "", 0, 1, CLATTN_GRADIENT_KEY },
    { CLATTN_MHA_GRADIENT_WV, "", 0, 1, CLATTN_GRADIENT_VALUE },
    { CLATTN_MHA_GRADIENT_WO, "", 0, 0, 0 },
    { CLATTN_MHA_GRADIENT_BQ, "CLATTN_MHA_BIAS_QUERY", CLATTN_MHA_BIAS_QUERY, 0, CLATTN_GRADIENT_QUERY },
    { CLATTN_MHA_GRADIENT_BK, "CLATTN_MHA_BIAS_KEY", CLATTN_MHA_BIAS_KEY, 1, CLATTN_GRADIENT_KEY },
    { CLATTN_MHA_GRADIENT_BV, "CLATTN_MHA_BIAS_VALUE", CLATTN_MHA_BIAS_VALUE, 1, CLATTN_GRADIENT_VALUE },
    { CLATTN_MHA_GRADIENT_BO, "CLATTN_MHA_BIAS_OUT", CLATTN_MHA_BIAS_OUT, 0, 0 },
};

#define GRADIENTS (sizeof(needed) / sizeof(needed[0]))
_Static_assert(GRADIENTS == MHA_BACKWARD_TENSOR_COUNT - MHA_DX, "each gradient has a row here");

static clattn_status check_gradients(const struct mha_backward_problem *b)
{
    const uint32_t parts = b->layer.p.parts;
    const clattn_status status = gradients_check(&known_gradients, b->p.gradients, b->p.accumulate);
    if (status != CLATTN_OK) {
        return status;
    }
    for (size_t i = 0; i < GRADIENTS; ++i) {
        if (!mha_backward_wants(b, needed[i].gradient)) {
            continue;
        }
        const char *name = gradients_name(&known_gradients, needed[i].gradient);
        if (needed[i].part && !(parts & needed[i].part)) {
            return error_set(CLATTN_INVALID_ARGUMENT, "gradients 0x%x: %s needs %s in the layer's parts",
                             b->p.gradients, name, needed[i].needs);
        }
        if (needed[i].is_packed_with_wq && parts & CLATTN_MHA_PACKED) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "gradients 0x%x: %s is a part of %s where the weights are packed; ask for that",
                             b->p.gradients, name, name[1] == 'w' ? "dwq" : "dbq");
        }
    }
    if (b->layer.p.weights != CLATTN_MHA_WEIGHTS_NONE) {
        return error_set(CLATTN_UNSUPPORTED,
                         "weights %d: the weights output has no gradient; set CLATTN_MHA_WEIGHTS_NONE",
                         (int)b->layer.p.weights);
    }
    return CLATTN_OK;
}

static clattn_status resolve_type(struct mha_backward_problem *b)
{
    const clattn_type given = b->p.gradient_type, type = b->layer.p.type;
    const clattn_status status = gradients_check_type(given, type);
    b->type = given != CLATTN_TYPE_NONE ? given : type;
    b->real = type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    return status == CLATTN_OK ? gradients_check_sums(b->p.accumulate, "gradients are", b->type) : status;
}

static void resolve_attention_gradients(struct mha_backward_problem *b)
{
    const uint32_t parts = b->layer.p.parts, all = CLATTN_MHA_GRADIENT_WQ | CLATTN_MHA_GRADIENT_BQ;
    for (size_t i = 0; i < GRADIENTS; ++i) {
        b->attention_gradients |= mha_backward_wants(b, needed[i].gradient) ? needed[i].attention : 0;
    }
    if ((parts & CLATTN_MHA_PACKED && mha_backward_wants(b, all)) ||
        (!(parts & CLATTN_MHA_CROSS) && mha_backward_wants(b, CLATTN_MHA_GRADIENT_X))) {
        b->attention_gradients |= CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    }
}

static clattn_status init_attention(struct mha_backward_problem *b)
{
    clattn_problem attention = mha_attention(&b->layer.p);
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    const char *forward_strategy = b->layer.attention.any.strategy_name;
    attention.type = b->real;
    attention.features |= CLATTN_WITH_LSE;
    attention.strategy = *forward_strategy ? forward_strategy : NULL;
    clattn_status status = problem_init(&b->forward, &attention);
    backward.forward = &attention;
    backward.gradients = b->attention_gradients;
    backward.strategy = b->p.strategy;
    return status == CLATTN_OK && backward.gradients ? backward_problem_init(&b->backward, &backward) : status;
}

static clattn_status resolve(struct any_problem *any)
{
    struct mha_backward_problem *b = (struct mha_backward_problem *)any;
    if (!b->p.forward) {
        return error_set(CLATTN_INVALID_ARGUMENT, "forward: must point to the layer's problem");
    }
    clattn_status status = any_problem_init(&b->layer.any, &operation_mha, b->p.forward);
    b->layer.any.operation = &operation_mha_backward;
    b->p.forward = NULL;
    if (status == CLATTN_OK) {
        status = check_gradients(b);
    }
    if (status == CLATTN_OK) {
        status = resolve_type(b);
    }
    resolve_attention_gradients(b);
    return status == CLATTN_OK ? init_attention(b) : status;
}

/* ---- calls ------------------------------------------------------------------------------------ */

static clattn_status measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const struct mha_backward_problem *b = mha_backward_problem_of(any);
    const clattn_status status = mha_measure(any, values, operands);
    operands->asked = (operands->asked & ~(1ull << MHA_Y)) | 1ull << MHA_DY;
    gradients_ask(&known_gradients, b->p.gradients, b->p.accumulate, operands);
    operands_set_type(operands, ELEMENT_GRADIENT, b->type);
    return status;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH_ELSEWHERE(clattn_mha_arrays);
GROWTH_ELSEWHERE(clattn_mha_host_arrays);
GROWTH(clattn_mha_backward_problem, "problem", gradients, strategy, CLATTN_MHA_BACKWARD_PROBLEM_INIT);
GROWTH(clattn_mha_gradients, "gradients", dcontext, dbo, CLATTN_MHA_GRADIENTS_INIT);
GROWTH(clattn_mha_host_gradients, "gradients", dcontext, dbo, CLATTN_MHA_HOST_GRADIENTS_INIT);

const struct operation operation_mha_backward = {
    .name = "multi-head layer's gradients",
    .rows = tensor_rows,
    .count = MHA_BACKWARD_TENSOR_COUNT,
    .workspace_function = "clattn_mha_backward_workspace",
    PROBLEM_OF(struct mha_backward_problem, clattn_mha_backward_problem),
    .resolve = resolve,
    .tensors = { TENSORS_OF(clattn_mha_arrays, clattn_mha_host_arrays, MHA_TENSOR_COUNT, 0),
                 TENSORS_OF(clattn_mha_gradients, clattn_mha_host_gradients,
                            MHA_BACKWARD_TENSOR_COUNT - MHA_TENSOR_COUNT, offsetof(clattn_mha_gradients, workspace)) },
    .unlooked = 1u << MHA_Y | 1u << MHA_WEIGHTS,
    .measure = measure,
    .check_values = mha_check_values,
    .reference = reference_mha_backward,
};
