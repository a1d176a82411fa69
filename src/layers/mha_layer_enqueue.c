/* One call of a multi-head layer: projections, attention, weights' average, output projection, in one chain of
 * commands. */
#include <string.h>

#include "layers/mha_layer.h"
#include "layers/sections.h"
#include "operation/call.h"

#define AVERAGE_ITEMS 64

static int64_t section_element(const struct clattn_mha *mha, enum mha_section section)
{
    return (int64_t)(mha->section_at[section] / clattn_type_size(mha->problem.p.type));
}

static int64_t weights_element(const struct clattn_mha *mha)
{
    return (int64_t)(mha->section_at[MHA_SECTION_WEIGHTS] / (mha->problem.p.type == CLATTN_FLOAT64 ? 8 : 4));
}

/* ---- projections ------------------------------------------------------------------------------ */

static clattn_status project_step(const struct clattn_mha *mha, const struct operands *operands,
                                  const struct mha_step *step, struct chain *chain)
{
    const struct tensor_place *source = &operands->tensor[step->source], *bias = &operands->tensor[step->bias];
    const struct tensor_place *weight = &operands->tensor[step->weight];
    const struct projection projection = {
        .params = { .left_offset = source->offset,
                    .right_offset = weight->offset + step->first_row * step->depth,
                    .bias_offset = bias->offset + step->first_row,
                    .result_offset = section_element(mha, MHA_SECTION_PROJECTED) + step->result_at,
                    .left_row = step->depth,
                    .right_row = step->depth,
                    .result_row = step->result_row,
                    .rows = (int)step->rows,
                    .columns = (int)step->columns,
                    .depth = (int)step->depth,
                    .has_bias = step->has_bias },
        .batch = 1,
        .left = source->buffer,
        .right = weight->buffer,
        .bias = step->has_bias ? bias->buffer : NULL,
        .result = operands->workspace,
    };
    return projector_enqueue(&mha->projector, &projection, chain);
}

static clattn_status enqueue_inputs(const struct clattn_mha *mha, const struct operands *operands, struct chain *chain)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < mha->n_steps && status == CLATTN_OK; ++i) {
        status = project_step(mha, operands, &mha->steps[i], chain);
    }
    return status;
}

static clattn_status enqueue_output(const struct clattn_mha *mha, const struct operands *operands, struct chain *chain)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const struct tensor_place *weight = &operands->tensor[MHA_WO], *bias = &operands->tensor[MHA_BO];
    const struct tensor_place *y = &operands->tensor[MHA_Y];
    const int has_bias = (p->parts & CLATTN_MHA_BIAS_OUT) != 0;
    const struct projection projection = {
        .params = { .left_offset = section_element(mha, MHA_SECTION_HEADS),
                    .right_offset = weight->offset,
                    .bias_offset = bias->offset,
                    .result_offset = y->offset,
                    .left_row = mha->problem.heads_dim,
                    .right_row = mha->problem.heads_dim,
                    .result_row = p->out_dim,
                    .rows = (int)(p->batch * p->rows),
                    .columns = (int)p->out_dim,
                    .depth = (int)mha->problem.heads_dim,
                    .has_bias = has_bias },
        .batch = 1,
        .left = operands->workspace,
        .right = weight->buffer,
        .bias = has_bias ? bias->buffer : NULL,
        .result = y->buffer,
    };
    chain_final(chain);
    return projector_enqueue(&mha->projector, &projection, chain);
}

/* ---- attention -------------------------------------------------------------------------------- */

static clattn_tensor heads_of(cl_mem buffer, int64_t offset, int64_t rows, int64_t row_stride, int64_t head_dim)
{
    const clattn_tensor tensor = { buffer, offset, { at_least_1(rows) * row_stride, head_dim, row_stride, 1 } };
    return tensor;
}

static void fill_tensors(const struct clattn_mha *mha, const struct operands *operands, cl_mem workspace,
                         clattn_tensors *tensors)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const int64_t projected = section_element(mha, MHA_SECTION_PROJECTED);
    clattn_tensor *const parts[3] = { &tensors->query, &tensors->key, &tensors->value };
    for (int i = 0; i < 3; ++i) {
        *parts[i] = heads_of(operands->workspace, projected + mha->part_at[i], i == 0 ? p->rows : p->context_rows,
                             mha->part_row[i], i == 2 ? p->head_dim_v : p->head_dim);
    }
    tensors->out = heads_of(operands->workspace, section_element(mha, MHA_SECTION_HEADS), p->rows,
                            mha->problem.heads_dim, p->head_dim_v);
    if (p->weights) {
        const int averages = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE;
        const struct tensor_place *weights = &operands->tensor[MHA_WEIGHTS];
        tensors->weights.buffer = averages ? operands->workspace : weights->buffer;
        tensors->weights.offset = averages ? weights_element(mha) : weights->offset;
        clattn_strides_bhsd(p->query_heads, p->rows, at_least_1(p->context_rows), tensors->weights.stride);
    }
    tensors->mask.buffer = operands->tensor[MHA_MASK].buffer;
    tensors->mask.offset = operands->tensor[MHA_MASK].offset;
    memcpy(tensors->mask.stride, operands->tensor[MHA_MASK].stride, sizeof(tensors->mask.stride));
    tensors->key_lengths.buffer = operands->tensor[MHA_KEY_LENGTHS].buffer;
    tensors->key_lengths.offset = operands->tensor[MHA_KEY_LENGTHS].offset;
    tensors->workspace = workspace;
}

/* `part`: the attention's own section of the workspace. */
static clattn_status enqueue_attention(const struct clattn_mha *mha, const struct operands *operands, cl_mem part,
                                       struct chain *chain)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call attention;
    fill_tensors(mha, operands, part, &tensors);
    values.has_scale = mha->problem.p.has_scale;
    values.scale = mha->problem.p.scale;
    clattn_status status = call_from_device(&mha->problem.attention, &values, &tensors, &attention);
    if (status == CLATTN_OK) {
        chain->more_follows = 1;
        status = enqueue_in_chain(mha->attention, &attention.operands, chain);
        chain->more_follows = 0;
    }
    return status;
}

static clattn_status enqueue_average(const struct clattn_mha *mha, const struct operands *operands, struct chain *chain)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const int64_t pairs = p->rows * p->context_rows;
    const cl_int heads = (cl_int)p->query_heads;
    const size_t items = staged_row_items(&mha->context->device, AVERAGE_ITEMS);
    const size_t global[2] = { ((size_t)pairs + items - 1) / items * items, (size_t)p->batch };
    const size_t local[2] = { items, 1 };
    const struct tensor_place *average = &operands->tensor[MHA_WEIGHTS];
    const int64_t at = weights_element(mha);
    const struct launch_argument arguments[] = {
        ARGUMENT(pairs),           ARGUMENT(heads),          ARGUMENT(at), ARGUMENT(operands->workspace),
        ARGUMENT(average->offset), ARGUMENT(average->buffer)
    };
    return mha->average ? launch(chain, mha->average, 2, global, local, 6, arguments) : CLATTN_OK;
}

static clattn_status enqueue_steps(const struct clattn_mha *mha, const struct operands *operands, cl_mem part,
                                   struct chain *chain)
{
    clattn_status status = CLATTN_OK;
    if (mha->problem.p.batch > 0 && mha->problem.p.rows > 0) {
        status = enqueue_inputs(mha, operands, chain);
        if (status == CLATTN_OK) {
            status = enqueue_attention(mha, operands, part, chain);
        }
        if (status == CLATTN_OK) {
            status = enqueue_average(mha, operands, chain);
        }
        if (status == CLATTN_OK) {
            status = enqueue_output(mha, operands, chain);
        }
    }
    return status;
}

clattn_status mha_rehearsed(const void *of, struct chain *chain)
{
    const struct clattn_mha *mha = of;
    struct operands operands;
    mha_measure(&mha->problem, &operation_mha, &operands);
    operands_stand_in(&operands);
    return enqueue_steps(mha, &operands, operands.workspace, chain);
}

clattn_status mha_enqueue(const struct clattn_mha *mha, const struct enqueue_target *target,
                          const struct operands *operands)
{
    struct chain chain;
    cl_mem part = NULL;
    clattn_status status = enqueue_begin(mha->context, target, operands, mha->workspace_bytes, &chain);
    if (status != CLATTN_OK) {
        return status;
    }
    status = section_buffer(operands->workspace, mha->section_at[MHA_SECTION_ATTENTION],
                            mha->attention->workspace_bytes, &part);
    if (status == CLATTN_OK) {
        status = enqueue_steps(mha, operands, part, &chain);
    }
    if (part) {
        clReleaseMemObject(part);
    }
    return chain_end(&chain, status);
}
