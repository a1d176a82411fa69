/* One call of the gradients of additive attention, in one chain of commands. */
#include "cl/additive_params.h"
#include "layers/additive_backward_layer.h"
#include "layers/sections.h"
#include "operation/fill_params.h"

/* What every step is told. */
struct step {
    const struct clattn_additive_backward *layer;
    const clattn_additive_problem *problem;
    const struct operands *operands;
    struct chain *chain;
};

static int wants(const struct step *s, uint32_t gradient)
{
    return additive_backward_wants(&s->layer->problem, gradient);
}

/* ---- where matrices are ----------------------------------------------------------------------- */

static int64_t element_of(const struct step *s, enum additive_backward_section at)
{
    return (int64_t)(s->layer->section_at[at] / sizeof(float));
}

static struct matrix section(const struct step *s, enum additive_backward_section at, int64_t stride)
{
    return (struct matrix){ s->operands->workspace, element_of(s, at), stride };
}

static struct matrix given(const struct step *s, int id, int64_t stride)
{
    const struct tensor_place *place = &s->operands->tensor[id];
    const struct matrix matrix = { place->buffer, place->offset, stride };
    return matrix;
}

/* What the caller gives, in float32: where it is, or its copy. */
static struct matrix input(const struct step *s, int id, enum additive_backward_section copy, int64_t stride)
{
    return s->problem->type == CLATTN_FLOAT32 ? given(s, id, stride) : section(s, copy, stride);
}

static struct matrix units_of(const struct step *s, enum additive_backward_section at)
{
    return section(s, at, s->layer->hidden_stride);
}

/* ---- the layer once more ---------------------------------------------------------------------- */

static clattn_status widen_inputs(const struct step *s)
{
    const clattn_additive_problem *p = s->problem;
    const struct {
        int id;
        enum additive_backward_section to;
        int64_t count;
    } inputs[] = {
        { ADDITIVE_SCORE, ADDITIVE_BACKWARD_SCORE, p->hidden_dim }, /* always; the others where they are narrow */
        { ADDITIVE_QUERY, ADDITIVE_BACKWARD_QUERY, p->batch * p->rows * p->query_dim },
        { ADDITIVE_KEY, ADDITIVE_BACKWARD_KEY, p->batch * p->keys * p->key_dim },
        { ADDITIVE_VALUE, ADDITIVE_BACKWARD_VALUE, p->batch * p->keys * p->value_dim },
        { ADDITIVE_DOUT, ADDITIVE_BACKWARD_DOUT, p->batch * p->rows * p->value_dim },
        { ADDITIVE_WQ, ADDITIVE_BACKWARD_WQ, p->hidden_dim * p->query_dim },
        { ADDITIVE_WK, ADDITIVE_BACKWARD_WK, p->hidden_dim * p->key_dim },
    };
    const size_t count = p->type == CLATTN_FLOAT32 ? 1 : sizeof(inputs) / sizeof(inputs[0]);
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < count && status == CLATTN_OK; ++i) {
        status = matrices_copy(&s->layer->matrices, given(s, inputs[i].id, 0), section(s, inputs[i].to, 0),
                               inputs[i].count, s->chain);
    }
    return status;
}

static struct additive_places places_of(const struct step *s)
{
    const struct additive_places places = {
        .query = input(s, ADDITIVE_QUERY, ADDITIVE_BACKWARD_QUERY, 0),
        .key = input(s, ADDITIVE_KEY, ADDITIVE_BACKWARD_KEY, 0),
        .wq = input(s, ADDITIVE_WQ, ADDITIVE_BACKWARD_WQ, 0),
        .wk = input(s, ADDITIVE_WK, ADDITIVE_BACKWARD_WK, 0),
        .score = section(s, ADDITIVE_BACKWARD_SCORE, 0),
        .workspace = s->operands->workspace,
        .zero_at = element_of(s, ADDITIVE_BACKWARD_ZERO),
        .queries = units_of(s, ADDITIVE_BACKWARD_QUERY_UNITS),
        .keys_at = element_of(s, ADDITIVE_BACKWARD_TURNED_KEYS),
        .scores_at = element_of(s, ADDITIVE_BACKWARD_SCORES),
    };
    return places;
}

static clattn_tensor tensor_of(struct matrix matrix, int64_t rows, int64_t columns)
{
    clattn_tensor tensor = { matrix.buffer, matrix.offset, { 0, 0, 0, 0 } };
    clattn_strides_bhsd(1, at_least_1(rows), columns, tensor.stride);
    return tensor;
}

static void fill_tensors(const struct step *s, const struct additive_places *places, clattn_tensors *tensors,
                         clattn_call *values)
{
    const clattn_additive_problem *p = s->problem;
    additive_fill_tensors(&s->layer->scores, p, places, s->operands, tensors);
    tensors->value = tensor_of(input(s, ADDITIVE_VALUE, ADDITIVE_BACKWARD_VALUE, 0), p->keys, p->value_dim);
    tensors->out = tensor_of(section(s, ADDITIVE_BACKWARD_OUT, 0), p->rows, p->value_dim);
    tensors->lse = tensor_of(section(s, ADDITIVE_BACKWARD_LSE, 0), p->rows, 1);
    values->has_scale = 1; /* of 0: the scores are in the bias */
}

static clattn_status attend(const struct step *s, cl_mem workspace)
{
    const struct problem *problem = &s->layer->problem.forward;
    const struct additive_places places = places_of(s);
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call call;
    fill_tensors(s, &places, &tensors, &values);
    tensors.workspace = workspace;
    clattn_status status = call_from_device(problem, &values, &tensors, &call);
    if (status == CLATTN_OK) {
        status = additive_scores_enqueue(&s->layer->scores, s->problem, &places, problem, &call, s->chain);
    }
    return status == CLATTN_OK ? enqueue_in_chain(s->layer->forward, &call.operands, s->chain) : status;
}

/* ---- backwards -------------------------------------------------------------------------------- */

static clattn_status differentiate_values(const struct step *s, cl_mem workspace)
{
    const clattn_additive_problem *p = s->problem;
    const struct backward_problem *problem = &s->layer->problem.backward;
    const struct additive_places places = places_of(s);
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_gradients gradients = CLATTN_GRADIENTS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call call;
    fill_tensors(s, &places, &tensors, &values);
    gradients.dout = tensor_of(input(s, ADDITIVE_DOUT, ADDITIVE_BACKWARD_DOUT, 0), p->rows, p->value_dim);
    gradients.dvalue = tensor_of(section(s, ADDITIVE_BACKWARD_DVALUE, 0), p->keys, p->value_dim);
    gradients.workspace = workspace;
    const clattn_status status = backward_call_from_device(problem, &values, &tensors, &gradients, &call);
    return status == CLATTN_OK ? enqueue_in_chain(s->layer->backward, &call.operands, s->chain) : status;
}

/* dP [batch][rows][keys] = dout value^T, where dS will be. */
static clattn_status multiply_values(const struct step *s)
{
    const clattn_additive_problem *p = s->problem;
    const struct matrix dout = input(s, ADDITIVE_DOUT, ADDITIVE_BACKWARD_DOUT, p->value_dim);
    const struct matrix value = input(s, ADDITIVE_VALUE, ADDITIVE_BACKWARD_VALUE, p->value_dim);
    const struct projection projection = {
        .params = { .left_offset = dout.offset,
                    .right_offset = value.offset,
                    .result_offset = element_of(s, ADDITIVE_BACKWARD_DS),
                    .left_row = p->value_dim,
                    .right_row = p->value_dim,
                    .result_row = p->keys,
                    .left_batch = p->rows * p->value_dim,
                    .right_batch = p->keys * p->value_dim,
                    .result_batch = p->rows * p->keys,
                    .rows = (int)p->rows,
                    .columns = (int)p->keys,
                    .depth = (int)p->value_dim },
        .batch = p->batch,
        .left = dout.buffer,
        .right = value.buffer,
        .result = s->operands->workspace,
    };
    return projector_enqueue(&s->layer->matrices.projector, &projection, s->chain);
}

/* D of each row, then dS in place of dP. `call`: of the forward attention, whose masks hide. */
static clattn_status launch_ds(const struct step *s, const struct call *call)
{
    const clattn_additive_problem *p = s->problem;
    const struct matrix dout = input(s, ADDITIVE_DOUT, ADDITIVE_BACKWARD_DOUT, p->value_dim);
    const struct tensor_place *given_places = s->operands->tensor;
    const clattn_additive_ds values = {
        .dout_at = dout.offset,
        .out_at = element_of(s, ADDITIVE_BACKWARD_OUT),
        .lse_at = element_of(s, ADDITIVE_BACKWARD_LSE),
        .d_at = element_of(s, ADDITIVE_BACKWARD_D),
        .scores_at = element_of(s, ADDITIVE_BACKWARD_SCORES),
        .ds_at = element_of(s, ADDITIVE_BACKWARD_DS),
        .score_stride = s->layer->scores.key_stride,
        .value_dim = (int)p->value_dim,
        .all_rows = (int)(p->batch * p->rows),
    };
    clattn_params params;
    const size_t items = s->layer->ds_items, local[3] = { items, 1, 1 };
    const size_t rows = ((size_t)values.all_rows + items - 1) / items * items;
    const size_t global[3] = { items * (size_t)values.all_rows, 1, 1 };
    const struct launch_argument of_rows[] = { ARGUMENT(values), ARGUMENT(dout.buffer),
                                               ARGUMENT(s->operands->workspace) };
    const struct launch_argument of_pairs[] = { ARGUMENT(params), ARGUMENT(values),
                                                ARGUMENT(given_places[ADDITIVE_MASK].buffer),
                                                ARGUMENT(given_places[ADDITIVE_KEY_LENGTHS].buffer),
                                                ARGUMENT(s->operands->workspace) };
    params_fill(&s->layer->problem.forward, call, &params);
    const clattn_status status = launch(s->chain, s->layer->row_terms, 1, &rows, local, 3, of_rows);
    return status == CLATTN_OK ? launch(s->chain, s->layer->ds, 3, global, local, 5, of_pairs) : status;
}

static clattn_status differentiate_softmax(const struct step *s)
{
    const struct additive_places places = places_of(s);
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    struct call call;
    fill_tensors(s, &places, &tensors, &values);
    clattn_status status = call_from_device(&s->layer->problem.forward, &values, &tensors, &call);
    if (status == CLATTN_OK) {
        status = multiply_values(s);
    }
    return status == CLATTN_OK ? launch_ds(s, &call) : status;
}

/* The keys' hidden units once more, each key's side by side. */
static clattn_status project_keys(const struct step *s)
{
    const struct matrix no_bias = { NULL, 0, 0 };
    const struct additive_side *side = &s->layer->sides[ADDITIVE_KEY_SIDE];
    return matrices_multiply(&s->layer->matrices, input(s, side->input, side->wide_input, side->dim),
                             input(s, side->weight, side->wide_weight, side->dim), no_bias, units_of(s, side->units),
                             side->rows, s->problem->hidden_dim, side->dim, s->chain);
}

/* The gradients at the hidden units of one side; of queries also dscore's partial sums. */
static clattn_status sum_pairs(const struct step *s, int own)
{
    const clattn_additive_problem *p = s->problem;
    const struct additive_side *mine = &s->layer->sides[own], *theirs = &s->layer->sides[1 - own];
    const int is_query = own == ADDITIVE_QUERY_SIDE;
    const clattn_additive_sums params = {
        .own_at = element_of(s, mine->units),
        .other_at = element_of(s, theirs->units),
        .score_at = element_of(s, ADDITIVE_BACKWARD_SCORE),
        .ds_at = element_of(s, ADDITIVE_BACKWARD_DS),
        .sums_at = element_of(s, mine->dunits),
        .partials_at = element_of(s, ADDITIVE_BACKWARD_PARTIALS),
        .ds_batch = p->rows * p->keys,
        .ds_own = is_query ? p->keys : 1,
        .ds_other = is_query ? 1 : p->keys,
        .own_len = (int)(is_query ? p->rows : p->keys),
        .other_len = (int)(is_query ? p->keys : p->rows),
        .hidden_dim = (int)p->hidden_dim,
        .hidden_stride = (int)s->layer->hidden_stride,
        .has_partials = is_query && s->layer->partials > 0,
    };
    const size_t items = s->layer->sum_items, lanes = (size_t)s->layer->scores.lanes;
    const size_t units = ((size_t)p->hidden_dim + lanes - 1) / lanes;
    const size_t global[3] = { (units + items - 1) / items * items,
                               ((size_t)params.own_len + ADDITIVE_SUM_ROWS - 1) / ADDITIVE_SUM_ROWS, (size_t)p->batch };
    const size_t local[3] = { items, 1, 1 };
    const struct launch_argument arguments[] = { ARGUMENT(params), ARGUMENT(s->operands->workspace) };
    return launch(s->chain, s->layer->sums, 3, global, local, 2, arguments);
}

static clattn_status differentiate_scores(const struct step *s)
{
    clattn_status status = differentiate_softmax(s);
    if (status == CLATTN_OK) {
        status = project_keys(s);
    }
    for (int side = 0; side < ADDITIVE_SIDES && status == CLATTN_OK; ++side) {
        status = s->layer->sides[side].needs_dunits ? sum_pairs(s, side) : status;
    }
    return status;
}

/* ---- results ---------------------------------------------------------------------------------- */

static clattn_status give(const struct step *s, enum additive_backward_section from, int id, uint32_t bit,
                          int64_t count, int is_zero)
{
    return matrices_give(&s->layer->matrices, section(s, from, 0), given(s, id, 0), count,
                         (s->layer->problem.accumulate & bit) != 0, is_zero, s->chain);
}

static clattn_status give_weight(const struct step *s, const struct additive_side *side, int is_zero)
{
    const int64_t hidden = s->problem->hidden_dim;
    const struct matrix_scratch scratch = { section(s, ADDITIVE_BACKWARD_LEFT, 0),
                                            section(s, ADDITIVE_BACKWARD_RIGHT, 0),
                                            section(s, ADDITIVE_BACKWARD_MARKS, 1),
                                            section(s, ADDITIVE_BACKWARD_RESULT, 0) };
    clattn_status status = CLATTN_OK;
    if (!is_zero) {
        status = matrices_weight_gradient(&s->layer->matrices, units_of(s, side->dunits),
                                          input(s, side->input, side->wide_input, side->dim), &scratch, side->rows,
                                          hidden, side->dim, s->chain);
    }
    return status == CLATTN_OK
               ? give(s, ADDITIVE_BACKWARD_RESULT, side->dweight, side->weight_bit, hidden * side->dim, is_zero)
               : status;
}

static clattn_status give_input(const struct step *s, const struct additive_side *side, int is_zero)
{
    const int64_t hidden = s->problem->hidden_dim;
    const struct matrix turned = section(s, ADDITIVE_BACKWARD_WEIGHT, hidden), no_bias = { NULL, 0, 0 };
    clattn_status status = CLATTN_OK;
    if (!is_zero) {
        status = matrices_transpose(&s->layer->matrices, 1, given(s, side->weight, side->dim), NULL, turned, hidden,
                                    side->dim, s->chain);
    }
    if (status == CLATTN_OK && !is_zero) {
        status = matrices_multiply(&s->layer->matrices, units_of(s, side->dunits), turned, no_bias,
                                   section(s, ADDITIVE_BACKWARD_RESULT, side->dim), side->rows, side->dim, hidden,
                                   s->chain);
    }
    return status == CLATTN_OK
               ? give(s, ADDITIVE_BACKWARD_RESULT, side->dinput, side->input_bit, side->rows * side->dim, is_zero)
               : status;
}

static clattn_status give_score(const struct step *s, int is_zero)
{
    clattn_status status = CLATTN_OK;
    if (!is_zero) {
        status = matrices_sum_columns(&s->layer->matrices, units_of(s, ADDITIVE_BACKWARD_PARTIALS),
                                      section(s, ADDITIVE_BACKWARD_RESULT, 0), s->layer->partials,
                                      s->problem->hidden_dim, s->chain);
    }
    return status == CLATTN_OK ? give(s, ADDITIVE_BACKWARD_RESULT, ADDITIVE_DSCORE, CLATTN_ADDITIVE_GRADIENT_SCORE,
                                      s->problem->hidden_dim, is_zero)
                               : status;
}

static clattn_status give_all(const struct step *s, int is_zero)
{
    const clattn_additive_problem *p = s->problem;
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < ADDITIVE_SIDES && status == CLATTN_OK; ++i) {
        const struct additive_side *side = &s->layer->sides[i];
        status = wants(s, side->weight_bit) ? give_weight(s, side, is_zero) : status;
        status = status == CLATTN_OK && wants(s, side->input_bit) ? give_input(s, side, is_zero) : status;
    }
    if (status == CLATTN_OK && wants(s, CLATTN_ADDITIVE_GRADIENT_SCORE)) {
        status = give_score(s, is_zero);
    }
    return status == CLATTN_OK && wants(s, CLATTN_ADDITIVE_GRADIENT_VALUE)
               ? give(s, ADDITIVE_BACKWARD_DVALUE, ADDITIVE_DVALUE, CLATTN_ADDITIVE_GRADIENT_VALUE,
                      p->batch * p->keys * p->value_dim, is_zero)
               : status;
}

static clattn_status enqueue_steps(const struct step *s, cl_mem forward, cl_mem backward)
{
    const clattn_additive_problem *p = s->problem;
    const int is_zero = p->batch == 0 || p->rows == 0 || p->keys == 0; /* no query meets a key */
    clattn_status status = is_zero ? CLATTN_OK : widen_inputs(s);
    if (status == CLATTN_OK && !is_zero) {
        status = attend(s, forward);
    }
    if (status == CLATTN_OK && !is_zero && s->layer->backward) {
        status = differentiate_values(s, backward);
    }
    if (status == CLATTN_OK && !is_zero && wants(s, ADDITIVE_GRADIENTS_OF_SCORES)) {
        status = differentiate_scores(s);
    }
    return status == CLATTN_OK ? give_all(s, is_zero) : status;
}

clattn_status additive_backward_rehearsed(const void *of, struct chain *chain)
{
    const struct clattn_additive_backward *layer = of;
    struct operands operands;
    const struct step step = { layer, &layer->problem.layer.p, &operands, chain };
    additive_backward_measure(&layer->problem, &operands);
    operands_stand_in(&operands);
    return enqueue_steps(&step, operands.workspace, operands.workspace);
}

clattn_status additive_backward_enqueue(const struct clattn_additive_backward *layer,
                                        const struct enqueue_target *target, const struct operands *operands)
{
    const struct clattn_plan *const plans[2] = { layer->forward, layer->backward };
    struct chain chain;
    cl_mem parts[2] = { NULL, NULL };
    const struct step step = { layer, &layer->problem.layer.p, operands, &chain };
    clattn_status status = enqueue_begin(layer->context, target, operands, layer->workspace_bytes, &chain);
    if (status != CLATTN_OK) {
        return status;
    }
    for (int i = 0; i < 2 && status == CLATTN_OK; ++i) {
        status = section_buffer(operands->workspace, layer->section_at[ADDITIVE_BACKWARD_ATTENTION],
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
