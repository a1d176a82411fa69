/* One call of a multi-head layer: projections, attention, weights' average, output projection. Three chains
 * of commands, joined by events where the queue does not keep their order. */
#include <string.h>

#include "base/error.h"
#include "layers/mha_layer.h"

#define AVERAGE_ITEMS 64

static clattn_status check_buffers(const struct clattn_mha *mha, const struct mha_call *call)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < MHA_ARRAYS && status == CLATTN_OK; ++i) {
        status = layer_check_buffer(&mha->problem.arrays[i],
                                    mha_call_count(&mha->problem, call, (enum mha_array)i),
                                    &call->places[i]);
    }
    return status == CLATTN_OK
               ? layer_check_workspace(call->workspace, mha->workspace_bytes, "clattn_mha_workspace")
               : status;
}

static int64_t section_element(const struct clattn_mha *mha, enum mha_section section)
{
    return (int64_t)(mha->section_at[section] / clattn_type_size(mha->problem.p.type));
}

static int64_t weights_element(const struct clattn_mha *mha)
{
    return (int64_t)(mha->section_at[MHA_SECTION_WEIGHTS] / (mha->problem.p.type == CLATTN_FLOAT64 ? 8 : 4));
}

/* ---- projections ------------------------------------------------------------------------------ */

static clattn_status project_step(const struct clattn_mha *mha, const struct mha_call *call,
                                  const struct mha_step *step, struct chain *chain)
{
    const struct layer_place *source = &call->places[step->source], *bias = &call->places[step->bias];
    const struct layer_place *weight = &call->places[step->weight];
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
        .result = call->workspace,
    };
    return projector_enqueue(&mha->projector, &projection, chain);
}

static clattn_status enqueue_inputs(const struct clattn_mha *mha, const struct mha_call *call,
                                    struct layer_joint *joint)
{
    struct chain chain;
    cl_event event = NULL;
    clattn_status status = chain_begin(&chain, joint->queue, layer_joint_count(joint), layer_joint_wait(joint),
                                       joint->in_order ? NULL : &event);
    if (status != CLATTN_OK) {
        return status;
    }
    for (int i = 0; i < mha->n_steps && status == CLATTN_OK; ++i) {
        status = project_step(mha, call, &mha->steps[i], &chain);
    }
    status = chain_end(&chain, status);
    if (status == CLATTN_OK) {
        layer_joint_pass(joint, event);
    }
    return status;
}

static clattn_status enqueue_output(const struct clattn_mha *mha, const struct mha_call *call,
                                    struct chain *chain)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const struct layer_place *weight = &call->places[MHA_WO], *bias = &call->places[MHA_BO];
    const struct layer_place *y = &call->places[MHA_Y];
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
        .left = call->workspace,
        .right = weight->buffer,
        .bias = has_bias ? bias->buffer : NULL,
        .result = y->buffer,
    };
    chain_final(chain);
    return projector_enqueue(&mha->projector, &projection, chain);
}

/* ---- attention -------------------------------------------------------------------------------- */

static clattn_tensor heads_of(cl_mem buffer, int64_t offset, int64_t rows, int64_t row_stride,
                              int64_t head_dim)
{
    const clattn_tensor tensor = { buffer, offset, { layer_at_least_1(rows) * row_stride, head_dim, row_stride, 1 } };
    return tensor;
}

static void fill_tensors(const struct clattn_mha *mha, const struct mha_call *call, cl_mem workspace,
                         clattn_tensors *tensors)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const int64_t projected = section_element(mha, MHA_SECTION_PROJECTED);
    clattn_tensor *const parts[3] = { &tensors->query, &tensors->key, &tensors->value };
    for (int i = 0; i < 3; ++i) {
        *parts[i] = heads_of(call->workspace, projected + mha->part_at[i],
                             i == 0 ? p->rows : p->context_rows, mha->part_row[i],
                             i == 2 ? p->head_dim_v : p->head_dim);
    }
    tensors->out = heads_of(call->workspace, section_element(mha, MHA_SECTION_HEADS), p->rows,
                            mha->problem.heads_dim, p->head_dim_v);
    tensors->call.has_scale = p->has_scale;
    tensors->call.scale = p->scale;
    if (p->weights) {
        const int averages = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE;
        const struct layer_place *weights = &call->places[MHA_WEIGHTS];
        tensors->weights.buffer = averages ? call->workspace : weights->buffer;
        tensors->weights.offset = averages ? weights_element(mha) : weights->offset;
        clattn_strides_bhsd(p->query_heads, p->rows, layer_at_least_1(p->context_rows),
                            tensors->weights.stride);
    }
    tensors->mask.buffer = call->places[MHA_MASK].buffer;
    tensors->mask.offset = call->places[MHA_MASK].offset;
    memcpy(tensors->mask.stride, call->mask_stride, sizeof(call->mask_stride));
    tensors->key_lengths.buffer = call->places[MHA_KEY_LENGTHS].buffer;
    tensors->key_lengths.offset = call->places[MHA_KEY_LENGTHS].offset;
    tensors->workspace = workspace;
}

static clattn_status enqueue_attention(const struct clattn_mha *mha, const struct mha_call *call,
                                       struct layer_joint *joint)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    struct call attention;
    cl_mem part;
    cl_event event = NULL;
    clattn_status status = layer_section_buffer(
        call->workspace, mha->section_at[MHA_SECTION_ATTENTION], mha->attention->workspace_bytes, &part);
    if (status != CLATTN_OK) {
        return status;
    }
    fill_tensors(mha, call, part, &tensors);
    status = call_from_device(&mha->problem.attention, &tensors, &attention);
    if (status == CLATTN_OK) {
        status = plan_enqueue(mha->attention, joint->queue, &attention, layer_joint_count(joint),
                                 layer_joint_wait(joint), joint->in_order ? NULL : &event);
    }
    if (status == CLATTN_OK) {
        layer_joint_pass(joint, event);
    }
    if (part) {
        clReleaseMemObject(part);
    }
    return status;
}

static clattn_status enqueue_average(const struct clattn_mha *mha, const struct mha_call *call,
                                     struct chain *chain)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const int64_t pairs = p->rows * p->context_rows;
    const cl_int heads = (cl_int)p->query_heads;
    const size_t items = staged_row_items(&mha->context->device, AVERAGE_ITEMS);
    const size_t global[2] = { ((size_t)pairs + items - 1) / items * items, (size_t)p->batch };
    const size_t local[2] = { items, 1 };
    const struct layer_place *average = &call->places[MHA_WEIGHTS];
    const int64_t at = weights_element(mha);
    const struct launch_argument arguments[] = {
        ARGUMENT(pairs), ARGUMENT(heads), ARGUMENT(at), ARGUMENT(call->workspace), ARGUMENT(average->offset),
        ARGUMENT(average->buffer)
    };
    return mha->average ? launch(chain, mha->average, 2, global, local, 6, arguments) : CLATTN_OK;
}

clattn_status mha_enqueue(const struct clattn_mha *mha, cl_command_queue queue,
                          const struct mha_call *call, cl_uint n_wait, const cl_event *wait,
                          cl_event *done)
{
    struct chain chain;
    struct layer_joint joint;
    clattn_status status = layer_joint_begin(&joint, mha->context, queue, n_wait, wait);
    if (status == CLATTN_OK) {
        status = check_buffers(mha, call);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    const int empty = mha->problem.p.batch == 0 || mha->problem.p.rows == 0;
    if (!empty) {
        status = enqueue_inputs(mha, call, &joint);
    }
    if (status == CLATTN_OK && !empty) {
        status = enqueue_attention(mha, call, &joint);
    }
    if (status == CLATTN_OK) {
        status = chain_begin(&chain, queue, layer_joint_count(&joint), layer_joint_wait(&joint), done);
    }
    if (status == CLATTN_OK) {
        status = empty ? CLATTN_OK : enqueue_average(mha, call, &chain);
        if (status == CLATTN_OK && !empty) {
            status = enqueue_output(mha, call, &chain);
        }
        status = chain_end(&chain, status);
    }
    layer_joint_pass(&joint, NULL);
    return status;
}
