/* Additive attention: the plan of its sections and kernels, and its calls. */
#include "layers/additive_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cl/additive_params.h"
#include "layers/sections.h"
#include "operation/fill_params.h"

#define GROUP_ITEMS 64
#define CPU_LANES 16 /* keys at once: a vector is several registers where these are narrow */

/* ---- planning --------------------------------------------------------------------------------- */

static clattn_status plan_sections(struct clattn_additive *additive)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const int64_t size = (int64_t)clattn_type_size(p->type), stride = additive->key_stride;
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

static clattn_status build_score(struct clattn_additive *additive)
{
    const struct device *device = &additive->context->device;
    size_t limit = 1;
    char options[48];
    additive->lanes = device->device_class == DEVICE_CPU ? CPU_LANES : 1;
    snprintf(options, sizeof(options), "-D TYPE=%d -D VEC=%d", (int)additive->problem.p.type, additive->lanes);
    clattn_status status =
        program_kernel(additive->context, "additive_score.cl", options, "additive_score", &additive->score);
    if (status == CLATTN_OK) {
        status = kernel_work_group_limit(additive->score, &limit);
    }
    additive->group_items = staged_row_items(device, GROUP_ITEMS);
    while (additive->group_items > limit) {
        additive->group_items /= 2;
    }
    return status;
}

static clattn_status plan(struct clattn_additive *additive, struct text *explain)
{
    const clattn_additive_problem *p = &additive->problem.p;
    /* An odd number of blocks, so that the hidden units of one block lie in different sets of a cache. */
    additive->key_stride = ((p->keys + ADDITIVE_ALIGNMENT - 1) / ADDITIVE_ALIGNMENT | 1) * ADDITIVE_ALIGNMENT;
    clattn_status status = planner_plan(additive->context, &additive->problem.attention.any, &additive->attention);
    if (status == CLATTN_OK) {
        status = plan_sections(additive);
    }
    if (status == CLATTN_OK) {
        const double rows = (double)(p->batch * p->rows), keys = (double)p->keys;
        const double most = rows * (double)p->query_dim > keys * (double)p->key_dim ? rows * (double)p->query_dim
                                                                                    : keys * (double)p->key_dim;
        status = projector_init(&additive->projector, additive->context, p->type, CLATTN_PROJECTION_AUTO,
                                most * (double)p->hidden_dim, explain);
    }
    return status == CLATTN_OK ? build_score(additive) : status;
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
        text_append(&explain,
                    "scores: %d keys x %d rows a work-item\nworkspace in all: %zu bytes\n"
                    "softmax and value mixing, with the scores as bias:\n%s",
                    additive->lanes, ADDITIVE_ROWS, additive->workspace_bytes, additive->attention->explain);
        additive->explain = text_take(&explain);
        if (!additive->explain) {
            status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for an explanation");
        }
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

static int64_t section_element(const struct clattn_additive *additive, enum additive_section section)
{
    return (int64_t)(additive->section_at[section] / clattn_type_size(additive->problem.p.type));
}

/* queries [batch * rows][hidden] = query wq^T */
static clattn_status project_queries(const struct clattn_additive *additive, const struct operands *operands,
                                     struct chain *chain)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const struct tensor_place *query = &operands->tensor[ADDITIVE_QUERY], *wq = &operands->tensor[ADDITIVE_WQ];
    const struct projection projection = {
        .params = { .left_offset = query->offset,
                    .right_offset = wq->offset,
                    .result_offset = section_element(additive, ADDITIVE_SECTION_QUERIES),
                    .left_row = p->query_dim,
                    .right_row = p->query_dim,
                    .result_row = p->hidden_dim,
                    .rows = (int)(p->batch * p->rows),
                    .columns = (int)p->hidden_dim,
                    .depth = (int)p->query_dim },
        .batch = 1,
        .left = query->buffer,
        .right = wq->buffer,
        .result = operands->workspace,
    };
    return projector_enqueue(&additive->projector, &projection, chain);
}

/* keys [batch][hidden][key_stride] = wk key^T */
static clattn_status project_keys(const struct clattn_additive *additive, const struct operands *operands,
                                  struct chain *chain)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const struct tensor_place *key = &operands->tensor[ADDITIVE_KEY], *wk = &operands->tensor[ADDITIVE_WK];
    const struct projection projection = {
        .params = { .left_offset = wk->offset,
                    .right_offset = key->offset,
                    .result_offset = section_element(additive, ADDITIVE_SECTION_KEYS),
                    .left_row = p->key_dim,
                    .right_row = p->key_dim,
                    .result_row = additive->key_stride,
                    .right_batch = p->keys * p->key_dim,
                    .result_batch = p->hidden_dim * additive->key_stride,
                    .rows = (int)p->hidden_dim,
                    .columns = (int)p->keys,
                    .depth = (int)p->key_dim },
        .batch = p->batch,
        .left = wk->buffer,
        .right = key->buffer,
        .result = operands->workspace,
    };
    return projector_enqueue(&additive->projector, &projection, chain);
}

static void fill_tensors(const struct clattn_additive *additive, const struct operands *operands, cl_mem workspace,
                         clattn_tensors *tensors)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const struct tensor_place *places = operands->tensor;
    const int64_t rows = at_least_1(p->rows), keys = at_least_1(p->keys);
    const clattn_tensor zero = { operands->workspace,
                                 section_element(additive, ADDITIVE_SECTION_ZERO),
                                 { 0, 0, 0, 1 } };
    tensors->query = tensors->key = zero;
    tensors->value.buffer = places[ADDITIVE_VALUE].buffer;
    tensors->value.offset = places[ADDITIVE_VALUE].offset;
    clattn_strides_bhsd(1, keys, p->value_dim, tensors->value.stride);
    tensors->out.buffer = places[ADDITIVE_OUT].buffer;
    tensors->out.offset = places[ADDITIVE_OUT].offset;
    clattn_strides_bhsd(1, rows, p->value_dim, tensors->out.stride);
    tensors->bias.buffer = operands->workspace;
    tensors->bias.offset = (int64_t)(additive->section_at[ADDITIVE_SECTION_SCORES] / sizeof(float));
    clattn_strides_bhsd(1, rows, at_least_1(additive->key_stride), tensors->bias.stride);
    tensors->mask.buffer = places[ADDITIVE_MASK].buffer;
    tensors->mask.offset = places[ADDITIVE_MASK].offset;
    memcpy(tensors->mask.stride, places[ADDITIVE_MASK].stride, sizeof(tensors->mask.stride));
    tensors->key_lengths.buffer = places[ADDITIVE_KEY_LENGTHS].buffer;
    tensors->key_lengths.offset = places[ADDITIVE_KEY_LENGTHS].offset;
    tensors->weights.buffer = places[ADDITIVE_WEIGHTS].buffer;
    tensors->weights.offset = places[ADDITIVE_WEIGHTS].offset;
    clattn_strides_bhsd(1, rows, keys, tensors->weights.stride);
    tensors->workspace = workspace;
}

static clattn_status launch_score(const struct clattn_additive *additive, const struct operands *operands,
                                  const struct call *attention, struct chain *chain)
{
    const clattn_additive_problem *p = &additive->problem.p;
    const size_t items = additive->group_items, lanes = (size_t)additive->lanes;
    const size_t groups = ((size_t)additive->key_stride / lanes + items - 1) / items;
    const size_t global[3] = { groups * items, ((size_t)p->rows + ADDITIVE_ROWS - 1) / ADDITIVE_ROWS,
                               (size_t)p->batch };
    const size_t local[3] = { items, 1, 1 };
    clattn_params params;
    const clattn_additive_values values = {
        .zero_at = section_element(additive, ADDITIVE_SECTION_ZERO),
        .queries_at = section_element(additive, ADDITIVE_SECTION_QUERIES),
        .keys_at = section_element(additive, ADDITIVE_SECTION_KEYS),
        .score_at = operands->tensor[ADDITIVE_SCORE].offset,
        .scores_at = (int64_t)(additive->section_at[ADDITIVE_SECTION_SCORES] / sizeof(float)),
        .key_stride = additive->key_stride,
        .hidden_dim = (int)p->hidden_dim,
    };
    const struct launch_argument arguments[] = {
        ARGUMENT(params),
        ARGUMENT(values),
        ARGUMENT(operands->workspace),
        ARGUMENT(operands->tensor[ADDITIVE_SCORE].buffer),
        ARGUMENT(operands->workspace),
        ARGUMENT(operands->tensor[ADDITIVE_KEY_LENGTHS].buffer),
    };
    params_fill(&additive->problem.attention, attention, &params);
    return launch(chain, additive->score, 3, global, local, 6, arguments);
}

static clattn_status enqueue_scores(const struct clattn_additive *additive, const struct operands *operands,
                                    const struct call *attention, struct chain *chain)
{
    clattn_status status = project_queries(additive, operands, chain);
    if (status == CLATTN_OK) {
        status = project_keys(additive, operands, chain);
    }
    return status == CLATTN_OK ? launch_score(additive, operands, attention, chain) : status;
}

/* The attention's part of the chain, with `part` as its workspace. */
static clattn_status enqueue_attention(const struct clattn_additive *additive, const struct operands *operands,
                                       cl_mem part, struct chain *chain)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call attention;
    fill_tensors(additive, operands, part, &tensors);
    values.has_scale = 1; /* of 0: the scores are in the bias */
    clattn_status status = call_from_device(&additive->problem.attention, &values, &tensors, &attention);
    if (status == CLATTN_OK && additive->problem.p.keys > 0) {
        status = enqueue_scores(additive, operands, &attention, chain);
    }
    return status == CLATTN_OK ? enqueue_in_chain(additive->attention, &attention.operands, chain) : status;
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
