/* One call of a multi-head layer's gradients, in one chain of commands. */
#include <string.h>

#include "layers/mha_backward_layer.h"
#include "layers/sections.h"

/* What every step is told. */
struct step {
    const struct clattn_mha_backward *layer;
    const struct operands *operands;
    struct chain *chain;
};

static int wants(const struct step *s, uint32_t gradient)
{
    return mha_backward_wants(&s->layer->problem, gradient);
}

/* ---- where matrices are ----------------------------------------------------------------------- */

static struct matrix section(const struct step *s, enum mha_backward_section at, int64_t element, int64_t stride)
{
    const size_t size = clattn_type_size(s->layer->problem.real);
    const struct matrix matrix = { s->operands->workspace, (int64_t)(s->layer->section_at[at] / size) + element,
                                   stride };
    return matrix;
}

static struct matrix given(const struct step *s, int id, int64_t row, int64_t stride)
{
    const struct tensor_place *place = &s->operands->tensor[id];
    const struct matrix matrix = { place->buffer, place->offset + row * stride, stride };
    return matrix;
}

/* In the type that is computed in: x, context, dy. */
static struct matrix input(const struct step *s, int id, int64_t stride)
{
    const enum mha_backward_section copy = id == MHA_X         ? MHA_BACKWARD_X
                                           : id == MHA_CONTEXT ? MHA_BACKWARD_CONTEXT
                                                               : MHA_BACKWARD_DY;
    return s->layer->problem.layer.p.type == s->layer->problem.real ? given(s, id, 0, stride)
                                                                    : section(s, copy, 0, stride);
}

static struct matrix dy_of(const struct step *s)
{
    return input(s, MHA_DY, s->layer->problem.layer.p.out_dim);
}

static struct matrix heads_of(const struct step *s, enum mha_backward_section at)
{
    return section(s, at, 0, s->layer->problem.layer.heads_dim);
}

static struct matrix part_of(const struct step *s, enum mha_backward_section at, const struct mha_part *part)
{
    return section(s, at, part->at, part->source->columns);
}

static struct matrix_scratch scratch_of(const struct step *s)
{
    const struct matrix_scratch scratch = { section(s, MHA_BACKWARD_LEFT, 0, 0), section(s, MHA_BACKWARD_RIGHT, 0, 0),
                                            section(s, MHA_BACKWARD_MARKS, 0, 1),
                                            section(s, MHA_BACKWARD_RESULT, 0, 0) };
    return scratch;
}

/* ---- the layer once more ---------------------------------------------------------------------- */

static int64_t rows_of(const struct step *s)
{
    return s->layer->sources[0].rows;
}

static clattn_status widen_inputs(const struct step *s)
{
    const clattn_mha_problem *p = &s->layer->problem.layer.p;
    clattn_status status = CLATTN_OK;
    if (p->type == s->layer->problem.real) {
        return CLATTN_OK;
    }
    for (int i = 0; i < s->layer->n_sources && status == CLATTN_OK; ++i) {
        const struct mha_source *source = &s->layer->sources[i];
        status = matrices_copy(&s->layer->matrices, given(s, source->input, 0, 0), input(s, source->input, 0),
                               source->rows * source->depth, s->chain);
    }
    return status == CLATTN_OK ? matrices_copy(&s->layer->matrices, given(s, MHA_DY, 0, 0), input(s, MHA_DY, 0),
                                               rows_of(s) * p->out_dim, s->chain)
                               : status;
}

/* A weight or a bias of `count` elements in the type that is computed in: where it is, or in a section. */
static clattn_status widen(const struct step *s, struct matrix from, enum mha_backward_section at, int64_t count,
                           struct matrix *wide)
{
    *wide = from;
    if (s->layer->problem.layer.p.type == s->layer->problem.real) {
        return CLATTN_OK;
    }
    *wide = section(s, at, 0, from.stride);
    return matrices_copy(&s->layer->matrices, from, *wide, count, s->chain);
}

static clattn_status project(const struct step *s, const struct mha_part *part)
{
    const struct mha_source *source = part->source;
    struct matrix weight, bias = { NULL, 0, 0 };
    clattn_status status = widen(s, given(s, part->weight, part->first_row, source->depth), MHA_BACKWARD_WEIGHT,
                                 part->dim * source->depth, &weight);
    if (status == CLATTN_OK && part->has_bias) {
        status = widen(s, given(s, part->bias, part->first_row, 1), MHA_BACKWARD_BIAS, part->dim, &bias);
    }
    return status == CLATTN_OK ? matrices_multiply(&s->layer->matrices, input(s, source->input, source->depth), weight,
                                                   bias, part_of(s, MHA_BACKWARD_PROJECTED, part), source->rows,
                                                   part->dim, source->depth, s->chain)
                               : status;
}

static clattn_tensor tensor_of(struct matrix matrix, int64_t rows, int64_t head_dim)
{
    const clattn_tensor tensor = { matrix.buffer,
                                   matrix.offset,
                                   { at_least_1(rows) * matrix.stride, head_dim, matrix.stride, 1 } };
    return tensor;
}

static void fill_parts(const struct step *s, enum mha_backward_section at, clattn_tensor *query, clattn_tensor *key,
                       clattn_tensor *value)
{
    const clattn_mha_problem *p = &s->layer->problem.layer.p;
    clattn_tensor *const tensors[MHA_PARTS] = { query, key, value };
    for (int i = 0; i < MHA_PARTS; ++i) {
        *tensors[i] = tensor_of(part_of(s, at, &s->layer->parts[i]), i == 0 ? p->rows : p->context_rows,
                                i == 2 ? p->head_dim_v : p->head_dim);
    }
}

static void fill_tensors(const struct step *s, cl_mem workspace, clattn_tensors *tensors, clattn_call *values)
{
    const clattn_mha_problem *p = &s->layer->problem.layer.p;
    const struct tensor_place *mask = &s->operands->tensor[MHA_MASK];
    const struct tensor_place *lengths = &s->operands->tensor[MHA_KEY_LENGTHS];
    fill_parts(s, MHA_BACKWARD_PROJECTED, &tensors->query, &tensors->key, &tensors->value);
    tensors->out = tensor_of(heads_of(s, MHA_BACKWARD_HEADS), p->rows, p->head_dim_v);
    tensors->lse.buffer = s->operands->workspace;
    tensors->lse.offset = (int64_t)(s->layer->section_at[MHA_BACKWARD_LSE] / sizeof(float));
    clattn_strides_bhsd(p->query_heads, at_least_1(p->rows), 1, tensors->lse.stride);
    tensors->mask.buffer = mask->buffer;
    tensors->mask.offset = mask->offset;
    memcpy(tensors->mask.stride, mask->stride, sizeof(mask->stride));
    tensors->key_lengths.buffer = lengths->buffer;
    tensors->key_lengths.offset = lengths->offset;
    tensors->workspace = workspace;
    values->has_scale = p->has_scale;
    values->scale = p->scale;
}

static clattn_status attend(const struct step *s, cl_mem workspace)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call call;
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < MHA_PARTS && status == CLATTN_OK; ++i) {
        status = project(s, &s->layer->parts[i]);
    }
    fill_tensors(s, workspace, &tensors, &values);
    if (status == CLATTN_OK) {
        status = call_from_device(&s->layer->problem.forward, &values, &tensors, &call);
    }
    return status == CLATTN_OK ? enqueue_in_chain(s->layer->forward, &call.operands, s->chain) : status;
}

/* ---- backwards -------------------------------------------------------------------------------- */

static clattn_status differentiate_attention(const struct step *s, cl_mem workspace)
{
    const struct backward_problem *problem = &s->layer->problem.backward;
    const clattn_mha_problem *p = &s->layer->problem.layer.p;
    const clattn_tensor none = CLATTN_TENSOR_NONE;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_gradients gradients = CLATTN_GRADIENTS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call call;
    fill_tensors(s, NULL, &tensors, &values);
    fill_parts(s, MHA_BACKWARD_DPROJECTED, &gradients.dquery, &gradients.dkey, &gradients.dvalue);
    gradients.dquery = backward_wants(problem, CLATTN_GRADIENT_QUERY) ? gradients.dquery : none;
    gradients.dkey = backward_wants(problem, CLATTN_GRADIENT_KEY) ? gradients.dkey : none;
    gradients.dvalue = backward_wants(problem, CLATTN_GRADIENT_VALUE) ? gradients.dvalue : none;
    gradients.dout = tensor_of(heads_of(s, MHA_BACKWARD_DHEADS), p->rows, p->head_dim_v);
    gradients.workspace = workspace;
    const clattn_status status = backward_call_from_device(problem, &values, &tensors, &gradients, &call);
    return status == CLATTN_OK ? enqueue_in_chain(s->layer->backward, &call.operands, s->chain) : status;
}

/* dheads = dy Wo, then the gradients of query, key and value. */
static clattn_status differentiate_heads(const struct step *s, cl_mem workspace)
{
    const struct mha_problem *layer = &s->layer->problem.layer;
    const int64_t out_dim = layer->p.out_dim;
    const struct matrix turned = section(s, MHA_BACKWARD_WEIGHT, 0, out_dim), no_bias = { NULL, 0, 0 };
    clattn_status status = matrices_transpose(&s->layer->matrices, 1, given(s, MHA_WO, 0, layer->heads_dim), NULL,
                                              turned, out_dim, layer->heads_dim, s->chain);
    if (status == CLATTN_OK) {
        status = matrices_multiply(&s->layer->matrices, dy_of(s), turned, no_bias, heads_of(s, MHA_BACKWARD_DHEADS),
                                   rows_of(s), layer->heads_dim, out_dim, s->chain);
    }
    return status == CLATTN_OK ? differentiate_attention(s, workspace) : status;
}

/* The result into rows [row, ...) of a gradient. */
static clattn_status give(const struct step *s, int id, uint32_t bit, int64_t row, int64_t rows, int64_t columns,
                          int is_zero)
{
    return matrices_give(&s->layer->matrices, section(s, MHA_BACKWARD_RESULT, 0, columns), given(s, id, row, columns),
                         rows * columns, (s->layer->problem.accumulate & bit) != 0, is_zero, s->chain);
}

static clattn_status give_output(const struct step *s, int is_zero)
{
    const struct mha_problem *layer = &s->layer->problem.layer;
    const struct matrix_scratch scratch = scratch_of(s);
    clattn_status status = CLATTN_OK;
    if (wants(s, CLATTN_MHA_GRADIENT_BO)) {
        status =
            matrices_sum_columns(&s->layer->matrices, dy_of(s), scratch.result, rows_of(s), layer->p.out_dim, s->chain);
        status = status == CLATTN_OK ? give(s, MHA_DBO, CLATTN_MHA_GRADIENT_BO, 0, 1, layer->p.out_dim, 0) : status;
    }
    if (status == CLATTN_OK && wants(s, CLATTN_MHA_GRADIENT_WO)) {
        if (!is_zero) {
            status = matrices_weight_gradient(&s->layer->matrices, dy_of(s), heads_of(s, MHA_BACKWARD_HEADS), &scratch,
                                              rows_of(s), layer->p.out_dim, layer->heads_dim, s->chain);
        }
        status = status == CLATTN_OK
                     ? give(s, MHA_DWO, CLATTN_MHA_GRADIENT_WO, 0, layer->p.out_dim, layer->heads_dim, is_zero)
                     : status;
    }
    return status;
}

static clattn_status give_part(const struct step *s, const struct mha_part *part, int is_zero)
{
    const struct mha_source *source = part->source;
    const struct matrix_scratch scratch = scratch_of(s);
    const struct matrix gradient = part_of(s, MHA_BACKWARD_DPROJECTED, part);
    clattn_status status = CLATTN_OK;
    if (wants(s, part->weight_bit)) {
        if (!is_zero) {
            status = matrices_weight_gradient(&s->layer->matrices, gradient, input(s, source->input, source->depth),
                                              &scratch, source->rows, part->dim, source->depth, s->chain);
        }
        status = status == CLATTN_OK
                     ? give(s, part->dweight, part->weight_bit, part->first_row, part->dim, source->depth, is_zero)
                     : status;
    }
    if (status == CLATTN_OK && part->has_bias && wants(s, part->bias_bit)) {
        if (!is_zero) {
            status =
                matrices_sum_columns(&s->layer->matrices, gradient, scratch.result, source->rows, part->dim, s->chain);
        }
        /* Rows of one element: the bias of a packed part begins at first_row. */
        status = status == CLATTN_OK ? give(s, part->dbias, part->bias_bit, part->first_row, part->dim, 1, is_zero)
                                     : status;
    }
    return status;
}

/* All parts of a source side by side times their weights below each other. */
static clattn_status give_source(const struct step *s, const struct mha_source *source, int is_zero)
{
    const struct matrices *matrices = &s->layer->matrices;
    const struct mha_part *first = &s->layer->parts[source->first_part];
    const struct matrix weights = section(s, MHA_BACKWARD_WEIGHT, 0, source->columns), no_bias = { NULL, 0, 0 };
    clattn_status status = CLATTN_OK;
    if (!wants(s, source->bit)) {
        return CLATTN_OK;
    }
    for (int i = source->first_part; i < source->end_part && status == CLATTN_OK && !is_zero; ++i) {
        const struct mha_part *part = &s->layer->parts[i];
        const struct matrix to = section(s, MHA_BACKWARD_WEIGHT, part->at - first->at, source->columns);
        status = matrices_transpose(matrices, 1, given(s, part->weight, part->first_row, source->depth), NULL, to,
                                    part->dim, source->depth, s->chain);
    }
    if (status == CLATTN_OK && !is_zero) {
        status = matrices_multiply(matrices, part_of(s, MHA_BACKWARD_DPROJECTED, first), weights, no_bias,
                                   section(s, MHA_BACKWARD_RESULT, 0, source->depth), source->rows, source->depth,
                                   source->columns, s->chain);
    }
    return status == CLATTN_OK ? give(s, source->gradient, source->bit, 0, source->rows, source->depth, is_zero)
                               : status;
}

static clattn_status give_all(const struct step *s, int is_zero)
{
    clattn_status status = give_output(s, is_zero);
    for (int i = 0; i < MHA_PARTS && status == CLATTN_OK; ++i) {
        status = give_part(s, &s->layer->parts[i], is_zero);
    }
    for (int i = 0; i < s->layer->n_sources && status == CLATTN_OK; ++i) {
        status = give_source(s, &s->layer->sources[i], is_zero);
    }
    return status;
}

static clattn_status enqueue_steps(const struct step *s, cl_mem forward, cl_mem backward)
{
    const clattn_mha_problem *p = &s->layer->problem.layer.p;
    const int is_zero = rows_of(s) == 0 || p->context_rows == 0; /* no query meets a key */
    clattn_status status = widen_inputs(s);
    if (status == CLATTN_OK && s->layer->forward && !is_zero) {
        status = attend(s, forward);
    }
    if (status == CLATTN_OK && s->layer->backward && !is_zero) {
        status = differentiate_heads(s, backward);
    }
    return status == CLATTN_OK ? give_all(s, is_zero) : status;
}

clattn_status mha_backward_rehearsed(const void *of, struct chain *chain)
{
    const struct clattn_mha_backward *layer = of;
    struct operands operands;
    const struct step step = { layer, &operands, chain };
    mha_backward_measure(&layer->problem, &operands);
    operands_stand_in(&operands);
    return enqueue_steps(&step, operands.workspace, operands.workspace);
}

clattn_status mha_backward_enqueue(const struct clattn_mha_backward *layer, const struct enqueue_target *target,
                                   const struct operands *operands)
{
    const struct clattn_plan *const plans[2] = { layer->forward, layer->backward };
    struct chain chain;
    cl_mem parts[2] = { NULL, NULL };
    const struct step step = { layer, operands, &chain };
    clattn_status status = enqueue_begin(layer->context, target, operands, layer->workspace_bytes, &chain);
    if (status != CLATTN_OK) {
        return status;
    }
    for (int i = 0; i < 2 && status == CLATTN_OK; ++i) {
        status = section_buffer(operands->workspace, layer->section_at[MHA_BACKWARD_ATTENTION],
                                plans[i] ? plans[i]->workspace_bytes : 0, &parts[i]);
    }
    chain.more_follows = 1;
    status = status == CLATTN_OK ? enqueue_steps(&step, parts[0], parts[1]) : status;
    for (int i = 0; i < 2; ++i) {
        if (parts[i]) {
            clReleaseMemObject(parts[i]);
        }
    }
    return chain_end(&chain, status);
}
