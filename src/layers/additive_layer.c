/* Additive attention: the plan of its sections and kernels, and its calls. */
#include "layers/additive_layer.h"

#include <stdlib.h>

#include "base/error.h"
#include "layers/sections.h"

/* ---- planning --------------------------------------------------------------------------------- */

static clattn_status plan_sections(struct clattn_additive *additive)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const int64_t size = (int64_t)clattn_type_size(p->type), stride = additive->scores.key_stride;
    const int64_t queries[4] = { p->batch, p->rows, p->hidden_dim, size };
    const int64_t keys[4] = { p->batch, stride, p->hidden_dim, size };
    const int64_t scores[4] = { p->batch, p->rows, stride, sizeof(float) };
    const int64_t bytes[ADDITIVE_SECTIONS] = {
        [ADDITIVE_SECTION_ZERO] = size,
        [ADDITIVE_SECTION_QUERIES] = product_of_extents(queries, 4),
        [ADDITIVE_SECTION_KEYS] = product_of_extents(keys, 4),
        [ADDITIVE_SECTION_SCORES] = product_of_extents(scores, 4),
        [ADDITIVE_SECTION_ATTENTION] = (int64_t)additive->attention->workspace_bytes,
    };
    return sections_place(&additive->context->device, bytes, additive->section_at, ADDITIVE_SECTIONS,
                          &additive->workspace_bytes);
}

static clattn_status plan(struct clattn_additive *additive, struct text *explain)
{
    const clattn_additive_problem *p = &additive->problem.p;
    clattn_status status = planner_plan(additive->context, &additive->problem.attention.any, &additive->attention);
    if (status == CLATTN_OK) {
        status = projector_init(&additive->projector, additive->context, p->type, CLATTN_PROJECTION_AUTO,
                                additive_projection_work(p), explain);
    }
    if (status == CLATTN_OK) {
        status = additive_scores_init(&additive->scores, additive->context, p, p->type, &additive->projector, explain);
    }
    return status == CLATTN_OK ? plan_sections(additive) : status;
}

clattn_status additive_create(clattn_context *context, const struct additive_problem *problem,
                              struct clattn_additive **result)
{
    struct text explain = TEXT_INIT;
    struct clattn_additive *additive = calloc(1, sizeof(*additive));
    if (!additive) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for additive attention");
    }
    additive->context = context;
    additive->problem = *problem;
    clattn_status status = plan(additive, &explain);
    if (status == CLATTN_OK) {
        status = rehearse(context, additive_rehearsed, additive);
    }
    if (status == CLATTN_OK) {
        text_append(&explain, "workspace in all: %zu bytes\nsoftmax and value mixing, with the scores as bias:\n%s",
                    additive->workspace_bytes, additive->attention->explain);
        status = text_give(&explain, "an explanation", &additive->explain);
    }
    text_free(&explain);
    if (status != CLATTN_OK) {
        additive_destroy(additive);
        return status;
    }
    *result = additive;
    return CLATTN_OK;
}

void additive_destroy(struct clattn_additive *additive)
{
    if (additive) {
        planner_destroy(additive->attention);
        free(additive->explain);
        free(additive);
    }
}

/* ---- enqueueing ------------------------------------------------------------------------------- */

static struct matrix given(const struct operands *operands, enum additive_tensor id)
{
    const struct matrix matrix = { operands->tensor[id].buffer, operands->tensor[id].offset, 0 };
    return matrix;
}

static int64_t section_element(const struct clattn_additive *additive, enum additive_section section)
{
    return (int64_t)(additive->section_at[section] / clattn_type_size(additive->problem.p.type));
}

static struct additive_places places_of(const struct clattn_additive *additive, const struct operands *operands)
{
    const struct additive_places places = {
        .query = given(operands, ADDITIVE_QUERY),
        .key = given(operands, ADDITIVE_KEY),
        .wq = given(operands, ADDITIVE_WQ),
        .wk = given(operands, ADDITIVE_WK),
        .score = given(operands, ADDITIVE_SCORE),
        .workspace = operands->workspace,
        .zero_at = section_element(additive, ADDITIVE_SECTION_ZERO),
        .queries = { operands->workspace, section_element(additive, ADDITIVE_SECTION_QUERIES),
                     additive->problem.p.hidden_dim },
        .keys_at = section_element(additive, ADDITIVE_SECTION_KEYS),
        .scores_at = (int64_t)(additive->section_at[ADDITIVE_SECTION_SCORES] / sizeof(float)),
    };
    return places;
}

static void fill_tensors(const struct clattn_additive *additive, const struct operands *operands,
                         const struct additive_places *places, clattn_tensors *tensors)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const struct tensor_place *given_places = operands->tensor;
    const int64_t rows = at_least_1(p->rows), keys = at_least_1(p->keys);
    additive_fill_tensors(&additive->scores, p, places, operands, tensors);
    tensors->value.buffer = given_places[ADDITIVE_VALUE].buffer;
    tensors->value.offset = given_places[ADDITIVE_VALUE].offset;
    clattn_strides_bhsd(1, keys, p->value_dim, tensors->value.stride);
    tensors->out.buffer = given_places[ADDITIVE_OUT].buffer;
    tensors->out.offset = given_places[ADDITIVE_OUT].offset;
    clattn_strides_bhsd(1, rows, p->value_dim, tensors->out.stride);
    tensors->weights.buffer = given_places[ADDITIVE_WEIGHTS].buffer;
    tensors->weights.offset = given_places[ADDITIVE_WEIGHTS].offset;
    clattn_strides_bhsd(1, rows, keys, tensors->weights.stride);
}

/* The attention's part of the chain, with `part` as its workspace. */
static clattn_status enqueue_attention(const struct clattn_additive *additive, const struct operands *operands,
                                       cl_mem part, struct chain *chain)
{
    const struct additive_places places = places_of(additive, operands);
    const struct problem *problem = &additive->problem.attention;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call attention;
    fill_tensors(additive, operands, &places, &tensors);
    tensors.workspace = part;
    values.has_scale = 1; /* of 0: the scores are in the bias */
    clattn_status status = call_from_device(problem, &values, &tensors, &attention);
    if (status == CLATTN_OK && additive->problem.p.keys > 0) {
        status = additive_scores_enqueue(&additive->scores, &additive->problem.p, &places, problem, &attention, chain);
    }
    return status == CLATTN_OK ? enqueue_in_chain(additive->attention, &attention.operands, chain) : status;
}

clattn_status additive_rehearsed(const void *of, struct chain *chain)
{
    const struct clattn_additive *additive = of;
    struct operands operands;
    additive_measure(&additive->problem, &operation_additive, &operands);
    operands_stand_in(&operands);
    return enqueue_attention(additive, &operands, operands.workspace, chain);
}

clattn_status additive_enqueue(const struct clattn_additive *additive, const struct enqueue_target *target,
                               const struct operands *operands)
{
    struct chain chain;
    cl_mem part;
    clattn_status status = enqueue_begin(additive->context, target, operands, additive->workspace_bytes, &chain);
    if (status != CLATTN_OK) {
        return status;
    }
    status = section_buffer(operands->workspace, additive->section_at[ADDITIVE_SECTION_ATTENTION],
                            additive->attention->workspace_bytes, &part);
    if (status == CLATTN_OK) {
        status = enqueue_attention(additive, operands, part, &chain);
    }
    if (part) {
        clReleaseMemObject(part);
    }
    return chain_end(&chain, status);
}
