/* Which kernels make the scores, and their launches. */
#include "layers/additive_scores.h"

#include <stdio.h>
#include <string.h>

#include "cl/additive_params.h"
#include "layers/sections.h"
#include "operation/fill_params.h"

#define GROUP_ITEMS 64
#define CPU_LANES 16 /* keys at once: a vector is several registers where these are narrow */

int64_t additive_stride(int64_t count)
{
    return ((count + ADDITIVE_ALIGNMENT - 1) / ADDITIVE_ALIGNMENT | 1) * ADDITIVE_ALIGNMENT;
}

clattn_status additive_group_items(const clattn_context *context, struct kernel *kernel, size_t *items)
{
    size_t limit = 1;
    const clattn_status status = kernel_work_group_limit(kernel, &limit);
    for (*items = staged_row_items(&context->device, GROUP_ITEMS); *items > limit;) {
        *items /= 2;
    }
    return status;
}

double additive_projection_work(const clattn_additive_problem *p)
{
    const double of_queries = (double)(p->batch * p->rows) * (double)p->query_dim;
    const double of_keys = (double)p->keys * (double)p->key_dim;
    return (of_queries > of_keys ? of_queries : of_keys) * (double)p->hidden_dim;
}

clattn_status additive_scores_init(struct additive_scores *scores, clattn_context *context,
                                   const clattn_additive_problem *p, clattn_type type,
                                   const struct projector *projector, struct text *explain)
{
    char options[48];
    scores->projector = projector;
    scores->key_stride = additive_stride(p->keys);
    scores->lanes = context->device.device_class == DEVICE_CPU ? CPU_LANES : 1;
    snprintf(options, sizeof(options), "-D TYPE=%d -D VEC=%d", (int)type, scores->lanes);
    const clattn_status status =
        program_kernel(context, "additive_score.cl", options, "additive_score", &scores->kernel);
    text_append(explain, "scores: %d keys x %d rows a work-item\n", scores->lanes, ADDITIVE_ROWS);
    return status == CLATTN_OK ? additive_group_items(context, scores->kernel, &scores->group_items) : status;
}

/* queries [batch * rows][hidden] = query wq^T */
static clattn_status project_queries(const struct additive_scores *scores, const clattn_additive_problem *p,
                                     const struct additive_places *places, struct chain *chain)
{
    const struct projection projection = {
        .params = { .left_offset = places->query.offset,
                    .right_offset = places->wq.offset,
                    .result_offset = places->queries.offset,
                    .left_row = p->query_dim,
                    .right_row = p->query_dim,
                    .result_row = places->queries.stride,
                    .rows = (int)(p->batch * p->rows),
                    .columns = (int)p->hidden_dim,
                    .depth = (int)p->query_dim },
        .batch = 1,
        .left = places->query.buffer,
        .right = places->wq.buffer,
        .result = places->workspace,
    };
    return projector_enqueue(scores->projector, &projection, chain);
}

/* keys [batch][hidden][key_stride] = wk key^T */
static clattn_status project_keys(const struct additive_scores *scores, const clattn_additive_problem *p,
                                  const struct additive_places *places, struct chain *chain)
{
    const struct projection projection = {
        .params = { .left_offset = places->wk.offset,
                    .right_offset = places->key.offset,
                    .result_offset = places->keys_at,
                    .left_row = p->key_dim,
                    .right_row = p->key_dim,
                    .result_row = scores->key_stride,
                    .right_batch = p->keys * p->key_dim,
                    .result_batch = p->hidden_dim * scores->key_stride,
                    .rows = (int)p->hidden_dim,
                    .columns = (int)p->keys,
                    .depth = (int)p->key_dim },
        .batch = p->batch,
        .left = places->wk.buffer,
        .right = places->key.buffer,
        .result = places->workspace,
    };
    return projector_enqueue(scores->projector, &projection, chain);
}

static clattn_status launch_scores(const struct additive_scores *scores, const clattn_additive_problem *p,
                                   const struct additive_places *places, const struct problem *attention,
                                   const struct call *call, struct chain *chain)
{
    const size_t items = scores->group_items, lanes = (size_t)scores->lanes;
    const size_t groups = ((size_t)scores->key_stride / lanes + items - 1) / items;
    const size_t global[3] = { groups * items, ((size_t)p->rows + ADDITIVE_ROWS - 1) / ADDITIVE_ROWS,
                               (size_t)p->batch };
    const size_t local[3] = { items, 1, 1 };
    clattn_params params;
    const clattn_additive_values values = {
        .zero_at = places->zero_at,
        .queries_at = places->queries.offset,
        .keys_at = places->keys_at,
        .score_at = places->score.offset,
        .scores_at = places->scores_at,
        .key_stride = scores->key_stride,
        .hidden_dim = (int)p->hidden_dim,
        .hidden_stride = (int)places->queries.stride,
    };
    const struct launch_argument arguments[] = {
        ARGUMENT(params),
        ARGUMENT(values),
        ARGUMENT(places->workspace),
        ARGUMENT(places->score.buffer),
        ARGUMENT(places->workspace),
        ARGUMENT(call->operands.tensor[TENSOR_KEY_LENGTHS].buffer),
    };
    params_fill(attention, call, &params);
    return launch(chain, scores->kernel, 3, global, local, 6, arguments);
}

clattn_status additive_scores_enqueue(const struct additive_scores *scores, const clattn_additive_problem *problem,
                                      const struct additive_places *places, const struct problem *attention,
                                      const struct call *call, struct chain *chain)
{
    clattn_status status = project_queries(scores, problem, places, chain);
    if (status == CLATTN_OK) {
        status = project_keys(scores, problem, places, chain);
    }
    return status == CLATTN_OK ? launch_scores(scores, problem, places, attention, call, chain) : status;
}

void additive_fill_tensors(const struct additive_scores *scores, const clattn_additive_problem *p,
                           const struct additive_places *places, const struct operands *operands,
                           clattn_tensors *tensors)
{
    const struct tensor_place *mask = &operands->tensor[ADDITIVE_MASK];
    const struct tensor_place *lengths = &operands->tensor[ADDITIVE_KEY_LENGTHS];
    const clattn_tensor zero = { places->workspace, places->zero_at, { 0, 0, 0, 1 } };
    tensors->query = tensors->key = zero;
    tensors->bias.buffer = places->workspace;
    tensors->bias.offset = places->scores_at;
    clattn_strides_bhsd(1, at_least_1(p->rows), at_least_1(scores->key_stride), tensors->bias.stride);
    tensors->mask.buffer = mask->buffer;
    tensors->mask.offset = mask->offset;
    memcpy(tensors->mask.stride, mask->stride, sizeof(tensors->mask.stride));
    tensors->key_lengths.buffer = lengths->buffer;
    tensors->key_lengths.offset = lengths->offset;
}
