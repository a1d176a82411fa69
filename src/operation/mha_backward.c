/* The table of the multi-head layer's gradients; validation of their problems and calls. */
#include "operation/mha_backward.h"

#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "operation/mha_rows.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

enum mha_gradient_element { ELEMENT_GRADIENT = MHA_ELEMENTS, MHA_BACKWARD_ELEMENTS };

/* Both public structs of a call, side by side. */
struct device_arrays {
    clattn_mha_arrays layer;
    clattn_mha_gradients gradients;
};
struct host_arrays {
    clattn_mha_host_arrays layer;
    clattn_mha_host_gradients gradients;
};

static const struct tensor_row tensor_rows[MHA_BACKWARD_TENSOR_COUNT] = {
#define ROW(of, field, axes, element, access, place)                                                                   \
    MEMBER_ROW(field, of.field, axes, element, ROLE_##access, place, struct device_arrays, struct host_arrays, none),
#define LAYER_ROW(id, field, axes, element, access, place, asked_by) ROW(layer, field, axes, element, access, place)
#define GRADIENT_ROW(id, field, axes, element, access, place, asked_by)                                                \
    ROW(gradients, field, axes, element, access, place)
    MHA_TENSORS(LAYER_ROW) MHA_GRADIENT_TENSORS(GRADIENT_ROW)
#undef ROW
#undef LAYER_ROW
#undef GRADIENT_ROW
};

ROWS_HAVE_ROOM(MHA_BACKWARD_TENSOR_COUNT, MHA_EXTENTS, MHA_BACKWARD_ELEMENTS);

const struct operation operation_mha_backward = {
    .name = "multi-head layer's gradients",
    .rows = tensor_rows,
    .count = MHA_BACKWARD_TENSOR_COUNT,
    .workspace_function = "clattn_mha_backward_workspace",
};

#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << MHA_##id : 0)
#define ALWAYS 1
#define GRADIENT(name) mha_backward_wants(problem, CLATTN_MHA_GRADIENT_##name)
static uint32_t asked_of(const struct mha_backward_problem *problem)
{
    return 0u MHA_GRADIENT_TENSORS(ASKED_OF_ROW);
}
#undef ALWAYS
#undef GRADIENT

/* Gradients that are not added to what is there are written whole. */
#define ALWAYS 0
#define GRADIENT(name) !(problem->accumulate & CLATTN_MHA_GRADIENT_##name)
static uint32_t unread_of(const struct mha_backward_problem *problem)
{
    return 0u MHA_GRADIENT_TENSORS(ASKED_OF_ROW);
}
#undef ALWAYS
#undef GRADIENT

/* ---- problem ---------------------------------------------------------------------------------- */

GROWTH(clattn_mha_backward_problem, "problem", gradients, strategy, CLATTN_MHA_BACKWARD_PROBLEM_INIT);

/* What the layer must have for a gradient, and whose gradients of attention that rests on. */
static const struct {
    uint32_t gradient;
    const char *name, *needs;
    uint32_t part;         /* of the layer; 0: it always has it */
    int is_packed_with_wq; /* with packed weights there is none */
    uint32_t attention;
} gradient_table[] = {
    { CLATTN_MHA_GRADIENT_X, "dx", "", 0, 0, CLATTN_GRADIENT_QUERY },
    { CLATTN_MHA_GRADIENT_CONTEXT, "dcontext", "CLATTN_MHA_CROSS", CLATTN_MHA_CROSS, 0,
      CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE },
    { CLATTN_MHA_GRADIENT_WQ, "dwq", "", 0, 0, CLATTN_GRADIENT_QUERY },
    { CLATTN_MHA_GRADIENT_WK, "dwk", "", 0, 1, CLATTN_GRADIENT_KEY },
    { CLATTN_MHA_GRADIENT_WV, "dwv", "", 0, 1, CLATTN_GRADIENT_VALUE },
    { CLATTN_MHA_GRADIENT_WO, "dwo", "", 0, 0, 0 },
    { CLATTN_MHA_GRADIENT_BQ, "dbq", "CLATTN_MHA_BIAS_QUERY", CLATTN_MHA_BIAS_QUERY, 0, CLATTN_GRADIENT_QUERY },
    { CLATTN_MHA_GRADIENT_BK, "dbk", "CLATTN_MHA_BIAS_KEY", CLATTN_MHA_BIAS_KEY, 1, CLATTN_GRADIENT_KEY },
    { CLATTN_MHA_GRADIENT_BV, "dbv", "CLATTN_MHA_BIAS_VALUE", CLATTN_MHA_BIAS_VALUE, 1, CLATTN_GRADIENT_VALUE },
    { CLATTN_MHA_GRADIENT_BO, "dbo", "CLATTN_MHA_BIAS_OUT", CLATTN_MHA_BIAS_OUT, 0, 0 },
};

#define GRADIENTS (sizeof(gradient_table) / sizeof(gradient_table[0]))
_Static_assert(GRADIENTS == MHA_BACKWARD_TENSOR_COUNT - MHA_DX, "each gradient has a row here");

static uint32_t known_gradients(void)
{
    uint32_t known = 0;
    for (size_t i = 0; i < GRADIENTS; ++i) {
        known |= gradient_table[i].gradient;
    }
    return known;
}

static clattn_status check_gradients(const struct mha_backward_problem *b)
{
    const uint32_t parts = b->layer.p.parts;
    clattn_status status = gradients_check(b->gradients, known_gradients(), "CLATTN_MHA_GRADIENT");
    if (status == CLATTN_OK) {
        status = gradients_check_accumulate(b->accumulate, b->gradients);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    for (size_t i = 0; i < GRADIENTS; ++i) {
        if (!mha_backward_wants(b, gradient_table[i].gradient)) {
            continue;
        }
        if (gradient_table[i].part && !(parts & gradient_table[i].part)) {
            return error_set(CLATTN_INVALID_ARGUMENT, "gradients 0x%x: %s needs %s in the layer's parts", b->gradients,
                             gradient_table[i].name, gradient_table[i].needs);
        }
        if (gradient_table[i].is_packed_with_wq && parts & CLATTN_MHA_PACKED) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "gradients 0x%x: %s is a part of %s where the weights are packed; ask for that",
                             b->gradients, gradient_table[i].name, gradient_table[i].name[1] == 'w' ? "dwq" : "dbq");
        }
    }
    if (b->layer.p.weights != CLATTN_MHA_WEIGHTS_NONE) {
        return error_set(CLATTN_UNSUPPORTED,
                         "weights %d: the weights output has no gradient; set CLATTN_MHA_WEIGHTS_NONE",
                         (int)b->layer.p.weights);
    }
    return CLATTN_OK;
}

static clattn_status resolve_type(struct mha_backward_problem *b, clattn_type given)
{
    const clattn_type type = b->layer.p.type;
    const clattn_status status = gradients_check_type(given, type);
    if (status != CLATTN_OK) {
        return status;
    }
    b->type = given != CLATTN_TYPE_NONE ? given : type;
    b->real = type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    if (b->accumulate && b->type != b->real) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "accumulate 0x%x: gradients are %s, and sums in 16 bits would lose what is added; set "
                         "gradient_type to CLATTN_FLOAT32",
                         b->accumulate, clattn_type_name(b->type));
    }
    return CLATTN_OK;
}

static void resolve_attention_gradients(struct mha_backward_problem *b)
{
    const uint32_t parts = b->layer.p.parts, all = CLATTN_MHA_GRADIENT_WQ | CLATTN_MHA_GRADIENT_BQ;
    for (size_t i = 0; i < GRADIENTS; ++i) {
        b->attention_gradients |= mha_backward_wants(b, gradient_table[i].gradient) ? gradient_table[i].attention : 0;
    }
    if ((parts & CLATTN_MHA_PACKED && mha_backward_wants(b, all)) ||
        (!(parts & CLATTN_MHA_CROSS) && mha_backward_wants(b, CLATTN_MHA_GRADIENT_X))) {
        b->attention_gradients |= CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    }
}

static clattn_status init_attention(struct mha_backward_problem *b, const char *strategy)
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
    backward.strategy = strategy;
    return status == CLATTN_OK && backward.gradients ? backward_problem_init(&b->backward, &backward) : status;
}

clattn_status mha_backward_problem_init(struct mha_backward_problem *b, const clattn_mha_backward_problem *given)
{
    clattn_mha_backward_problem known;
    memset(b, 0, sizeof(*b));
    clattn_status status = growth_copy(GROWTH_OF(clattn_mha_backward_problem), given, &known);
    if (status == CLATTN_OK && !known.forward) {
        status = error_set(CLATTN_INVALID_ARGUMENT, "forward: must point to the layer's problem");
    }
    if (status == CLATTN_OK) {
        status = mha_problem_init(&b->layer, known.forward);
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
    resolve_attention_gradients(b);
    return status == CLATTN_OK ? init_attention(b, known.strategy) : status;
}

/* ---- calls ------------------------------------------------------------------------------------ */

GROWTH(clattn_mha_gradients, "gradients", dcontext, dbo, CLATTN_MHA_GRADIENTS_INIT);
GROWTH(clattn_mha_host_gradients, "gradients", dcontext, dbo, CLATTN_MHA_HOST_GRADIENTS_INIT);

/* Before the places are read. */
void mha_backward_measure(const struct mha_backward_problem *b, struct operands *operands)
{
    mha_measure(&b->layer, &operation_mha_backward, operands);
    operands->asked = (operands->asked & ~(1u << MHA_Y)) | asked_of(b);
    operands->unread = unread_of(b);
    operands->element[ELEMENT_GRADIENT] = b->type;
    operands->element_bytes[ELEMENT_GRADIENT] = clattn_type_size(b->type);
}

clattn_status mha_backward_from_device(const struct mha_backward_problem *b, const clattn_mha_arrays *arrays,
                                       const clattn_mha_gradients *gradients, struct operands *operands)
{
    const clattn_array none = CLATTN_ARRAY_NONE;
    struct device_arrays known;
    clattn_status status = mha_copy_arrays(arrays, &known.layer);
    if (status == CLATTN_OK) {
        status = growth_copy(GROWTH_OF(clattn_mha_gradients), gradients, &known.gradients);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    known.layer.y = known.layer.weights = none;
    mha_backward_measure(b, operands);
    operands_read_device(operands, &known);
    operands->workspace = known.gradients.workspace;
    return operands_check(operands);
}

clattn_status mha_backward_from_host(const struct mha_backward_problem *b, const clattn_mha_host_arrays *arrays,
                                     const clattn_mha_host_gradients *gradients, struct operands *operands)
{
    struct host_arrays known;
    clattn_status status = mha_copy_host_arrays(arrays, &known.layer);
    if (status == CLATTN_OK) {
        status = growth_copy(GROWTH_OF(clattn_mha_host_gradients), gradients, &known.gradients);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    known.layer.y = known.layer.weights = NULL;
    mha_backward_measure(b, operands);
    operands_read_host(operands, &known);
    status = operands_check(operands);
    return status == CLATTN_OK ? mha_check_host_values(&b->layer, operands) : status;
}
