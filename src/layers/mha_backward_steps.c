/* The layer once more, then backwards through it: what is recorded, in this order. */
#include "layers/mha_backward_steps.h"

static int wants(const struct clattn_mha_backward *b, uint32_t gradient)
{
    return mha_backward_wants(b->problem, gradient);
}

/* ---- where matrices are ----------------------------------------------------------------------- */

static struct place heads_at(const struct clattn_mha_backward *b, enum mha_backward_section section)
{
    return layer_section((int)section, 0, b->problem->layer.heads_dim);
}

static struct place part_at(enum mha_backward_section section, const struct mha_part *part)
{
    return layer_section((int)section, part->at, part->source->columns);
}

static const struct matrix_scratch scratch = {
    { PLACE_OF_SECTION(MHA_BACKWARD_LEFT), 0, 0 },
    { PLACE_OF_SECTION(MHA_BACKWARD_RIGHT), 0, 0 },
    { PLACE_OF_SECTION(MHA_BACKWARD_MARKS), 0, 1 },
    { PLACE_OF_SECTION(MHA_BACKWARD_RESULT), 0, 0 },
};

static int64_t rows_of(const struct clattn_mha_backward *b)
{
    return b->sources[0].rows;
}

/* ---- the layer once more ---------------------------------------------------------------------- */

static int is_wide(const struct clattn_mha_backward *b)
{
    return b->problem->layer.p.type == b->problem->real;
}

/* A matrix in the type that is computed in: where it is, or its copy in a section. */
static struct place widen(struct clattn_mha_backward *b, struct place from, enum mha_backward_section section,
                          int64_t count)
{
    const struct place copy = layer_section((int)section, 0, from.stride);
    if (is_wide(b)) {
        return from;
    }
    matrices_copy(&b->layer.steps, &b->matrices, from, copy, count);
    return copy;
}

static void widen_inputs(struct clattn_mha_backward *b)
{
    static const enum mha_backward_section copies[2] = { MHA_BACKWARD_X, MHA_BACKWARD_CONTEXT };
    const int64_t out_dim = b->problem->layer.p.out_dim;
    for (int i = 0; i < b->n_sources; ++i) {
        struct mha_source *source = &b->sources[i];
        source->place =
            widen(b, layer_tensor(source->input, 0, source->depth), copies[i], source->rows * source->depth);
    }
    b->dy = widen(b, layer_tensor(MHA_DY, 0, out_dim), MHA_BACKWARD_DY, rows_of(b) * out_dim);
}

static void project(struct clattn_mha_backward *b, const struct mha_part *part)
{
    const struct mha_source *source = part->source;
    const struct place weight = widen(b, layer_tensor(part->weight, part->first_row * source->depth, source->depth),
                                      MHA_BACKWARD_WEIGHT, part->dim * source->depth);
    const struct place bias = part->has_bias
                                  ? widen(b, layer_tensor(part->bias, part->first_row, 1), MHA_BACKWARD_BIAS, part->dim)
                                  : LAYER_NOWHERE;
    matrices_multiply(&b->layer.steps, &b->matrices.projector, source->place, weight, bias,
                      part_at(MHA_BACKWARD_PROJECTED, part), source->rows, part->dim, source->depth);
}

static void fill_parts(const struct clattn_mha_backward *b, const struct run *run, enum mha_backward_section section,
                       clattn_tensor *const tensors[MHA_PARTS])
{
    const clattn_mha_problem *p = &b->problem->layer.p;
    for (int i = 0; i < MHA_PARTS; ++i) {
        *tensors[i] = layer_heads(steps_matrix(run, part_at(section, &b->parts[i])), i == 0 ? p->rows : p->context_rows,
                                  i == 2 ? p->head_dim_v : p->head_dim);
    }
}

static void fill_tensors(const struct clattn_mha_backward *b, const struct run *run, clattn_tensors *tensors,
                         clattn_call *values)
{
    const clattn_mha_problem *p = &b->problem->layer.p;
    const struct matrix lse = steps_matrix(run, layer_section(MHA_BACKWARD_LSE, 0, 0));
    clattn_tensor *const parts[MHA_PARTS] = { &tensors->query, &tensors->key, &tensors->value };
    fill_parts(b, run, MHA_BACKWARD_PROJECTED, parts);
    tensors->out = layer_heads(steps_matrix(run, heads_at(b, MHA_BACKWARD_HEADS)), p->rows, p->head_dim_v);
    tensors->lse.buffer = lse.buffer;
    tensors->lse.offset = lse.offset;
    clattn_strides_bhsd(p->query_heads, at_least_1(p->rows), 1, tensors->lse.stride);
    tensors->mask = layer_given(run->operands, MHA_MASK);
    tensors->key_lengths.buffer = run->operands->tensor[MHA_KEY_LENGTHS].buffer;
    tensors->key_lengths.offset = run->operands->tensor[MHA_KEY_LENGTHS].offset;
    values->has_scale = p->has_scale;
    values->scale = p->scale;
}

static clattn_status call_forward(const void *of, const struct run *run, cl_mem workspace, struct call *call)
{
    const struct clattn_mha_backward *b = of;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    fill_tensors(b, run, &tensors, &values);
    tensors.workspace = workspace;
    return call_from_device(&b->problem->forward, &values, &tensors, call);
}

static void attend(struct clattn_mha_backward *b)
{
    const int64_t rows = rows_of(b);
    for (int i = 0; i < MHA_PARTS; ++i) {
        project(b, &b->parts[i]);
    }
    steps_need(&b->layer.steps, heads_at(b, MHA_BACKWARD_HEADS), rows, b->problem->layer.heads_dim);
    steps_need(&b->layer.steps, layer_section(MHA_BACKWARD_LSE, 0, 0), rows, b->problem->layer.p.query_heads);
    steps_add_child(&b->layer.steps, MHA_BACKWARD_FORWARD, call_forward, b);
}

/* ---- backwards -------------------------------------------------------------------------------- */

static clattn_status call_backward(const void *of, const struct run *run, cl_mem workspace, struct call *call)
{
    const struct clattn_mha_backward *b = of;
    const struct backward_problem *problem = &b->problem->backward;
    const clattn_tensor none = CLATTN_TENSOR_NONE;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_gradients gradients = CLATTN_GRADIENTS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    clattn_tensor *const parts[MHA_PARTS] = { &gradients.dquery, &gradients.dkey, &gradients.dvalue };
    fill_tensors(b, run, &tensors, &values);
    fill_parts(b, run, MHA_BACKWARD_DPROJECTED, parts);
    gradients.dquery = backward_wants(problem, CLATTN_GRADIENT_QUERY) ? gradients.dquery : none;
    gradients.dkey = backward_wants(problem, CLATTN_GRADIENT_KEY) ? gradients.dkey : none;
    gradients.dvalue = backward_wants(problem, CLATTN_GRADIENT_VALUE) ? gradients.dvalue : none;
    gradients.dout = layer_heads(steps_matrix(run, heads_at(b, MHA_BACKWARD_DHEADS)), b->problem->layer.p.rows,
                                 b->problem->layer.p.head_dim_v);
    gradients.workspace = workspace;
    return backward_call_from_device(problem, &values, &tensors, &gradients, call);
}

/* dheads = dy Wo, then the gradients of query, key and value. */
static void differentiate_heads(struct clattn_mha_backward *b)
{
    const struct mha_problem *layer = &b->problem->layer;
    const int64_t out_dim = layer->p.out_dim;
    const struct place turned = layer_section(MHA_BACKWARD_WEIGHT, 0, out_dim);
    struct steps *steps = &b->layer.steps;
    matrices_transpose(steps, &b->matrices, 1, layer_tensor(MHA_WO, 0, layer->heads_dim), LAYER_NOWHERE, turned,
                       out_dim, layer->heads_dim);
    matrices_multiply(steps, &b->matrices.projector, b->dy, turned, LAYER_NOWHERE, heads_at(b, MHA_BACKWARD_DHEADS),
                      rows_of(b), layer->heads_dim, out_dim);
    for (int i = 0; i < b->n_sources; ++i) {
        const struct mha_source *source = &b->sources[i];
        steps_need(steps, part_at(MHA_BACKWARD_DPROJECTED, &b->parts[source->first_part]), source->rows,
                   source->columns);
    }
    steps_add_child(steps, MHA_BACKWARD_BACKWARD, call_backward, b);
}

/* ---- results ---------------------------------------------------------------------------------- */

/* The result into rows [row, ...) of a gradient. */
static void give(struct clattn_mha_backward *b, int id, uint32_t bit, int64_t row, int64_t rows, int64_t columns,
                 int is_zero)
{
    matrices_give(&b->layer.steps, &b->matrices, layer_section(MHA_BACKWARD_RESULT, 0, columns),
                  layer_tensor(id, row * columns, columns), rows * columns, (b->problem->p.accumulate & bit) != 0,
                  is_zero);
}

static void give_output(struct clattn_mha_backward *b, int is_zero)
{
    const struct mha_problem *layer = &b->problem->layer;
    const int64_t out_dim = layer->p.out_dim;
    if (wants(b, CLATTN_MHA_GRADIENT_BO)) {
        matrices_sum_columns(&b->layer.steps, &b->matrices, b->dy, scratch.result, rows_of(b), out_dim);
        give(b, MHA_DBO, CLATTN_MHA_GRADIENT_BO, 0, 1, out_dim, 0);
    }
    if (wants(b, CLATTN_MHA_GRADIENT_WO)) {
        if (!is_zero) {
            matrices_weight_gradient(&b->layer.steps, &b->matrices, b->dy, heads_at(b, MHA_BACKWARD_HEADS), &scratch,
                                     rows_of(b), out_dim, layer->heads_dim);
        }
        give(b, MHA_DWO, CLATTN_MHA_GRADIENT_WO, 0, out_dim, layer->heads_dim, is_zero);
    }
}

static void give_part(struct clattn_mha_backward *b, const struct mha_part *part, int is_zero)
{
    const struct mha_source *source = part->source;
    const struct place gradient = part_at(MHA_BACKWARD_DPROJECTED, part);
    if (wants(b, part->weight_bit)) {
        if (!is_zero) {
            matrices_weight_gradient(&b->layer.steps, &b->matrices, gradient, source->place, &scratch, source->rows,
                                     part->dim, source->depth);
        }
        give(b, part->dweight, part->weight_bit, part->first_row, part->dim, source->depth, is_zero);
    }
    if (part->has_bias && wants(b, part->bias_bit)) {
        if (!is_zero) {
            matrices_sum_columns(&b->layer.steps, &b->matrices, gradient, scratch.result, source->rows, part->dim);
        }
        /* Rows of one element: the bias of a packed part begins at first_row. */
        give(b, part->dbias, part->bias_bit, part->first_row, part->dim, 1, is_zero);
    }
}

/* All parts of a source side by side times their weights below each other. */
static void give_source(struct clattn_mha_backward *b, const struct mha_source *source, int is_zero)
{
    const struct mha_part *first = &b->parts[source->first_part];
    struct steps *steps = &b->layer.steps;
    if (!wants(b, source->bit)) {
        return;
    }
    for (int i = source->first_part; i < source->end_part && !is_zero; ++i) {
        const struct mha_part *part = &b->parts[i];
        matrices_transpose(steps, &b->matrices, 1,
                           layer_tensor(part->weight, part->first_row * source->depth, source->depth), LAYER_NOWHERE,
                           layer_section(MHA_BACKWARD_WEIGHT, part->at - first->at, source->columns), part->dim,
                           source->depth);
    }
    if (!is_zero) {
        matrices_multiply(steps, &b->matrices.projector, part_at(MHA_BACKWARD_DPROJECTED, first),
                          layer_section(MHA_BACKWARD_WEIGHT, 0, source->columns), LAYER_NOWHERE,
                          layer_section(MHA_BACKWARD_RESULT, 0, source->depth), source->rows, source->depth,
                          source->columns);
    }
    give(b, source->gradient, source->bit, 0, source->rows, source->depth, is_zero);
}

void mha_backward_add_steps(struct clattn_mha_backward *b)
{
    const int is_zero = rows_of(b) == 0 || b->problem->layer.p.context_rows == 0; /* no query meets a key */
    widen_inputs(b);
    if (b->attends && !is_zero) {
        attend(b);
    }
    if (b->differentiates && !is_zero) {
        differentiate_heads(b);
    }
    give_output(b, is_zero);
    for (int i = 0; i < MHA_PARTS; ++i) {
        give_part(b, &b->parts[i], is_zero);
    }
    for (int i = 0; i < b->n_sources; ++i) {
        give_source(b, &b->sources[i], is_zero);
    }
}
