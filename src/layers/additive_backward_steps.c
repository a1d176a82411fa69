/* Additive attention once more, then backwards through it: what is recorded, in this order. */
#include "layers/additive_backward_steps.h"

#include "base/checked_math.h"
#include "cl/layers/additive_params.h"
#include "operation/fill_params.h"

static int wants(const struct clattn_additive_backward *b, uint32_t gradients)
{
    return additive_backward_wants(b->problem, gradients);
}

static struct place units_at(const struct clattn_additive_backward *b, int section)
{
    return layer_section(section, 0, b->hidden_stride);
}

/* Where a section begins, in elements. */
static int64_t element_of(const struct run *run, int section)
{
    return steps_matrix(run, layer_section(section, 0, 0)).offset;
}

/* ---- the layer once more ---------------------------------------------------------------------- */

/* A matrix in float32: where it is, or its copy in a section. */
static struct place widen(struct clattn_additive_backward *b, int id, int copy, int64_t rows, int64_t columns)
{
    const struct place from = layer_tensor(id, 0, columns), to = layer_section(copy, 0, columns);
    if (b->problem->layer.p.type == CLATTN_FLOAT32) {
        return from;
    }
    matrices_copy(&b->layer.steps, &b->matrices, from, to, rows * columns);
    return to;
}

static void widen_inputs(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    const struct place score = layer_section(ADDITIVE_BACKWARD_SCORE, 0, 0);
    matrices_copy(&b->layer.steps, &b->matrices, layer_tensor(ADDITIVE_SCORE, 0, 0), score, p->hidden_dim);
    steps_need(&b->layer.steps, score, 1, b->hidden_stride); /* in whole vectors */
    for (int i = 0; i < ADDITIVE_SIDES; ++i) {
        struct additive_side *side = &b->sides[i];
        side->wide_input = widen(b, side->input, side->input_copy, side->rows, side->dim);
        side->wide_weight = widen(b, side->weight, side->weight_copy, p->hidden_dim, side->dim);
    }
    b->value = widen(b, ADDITIVE_VALUE, ADDITIVE_BACKWARD_VALUE, p->batch * p->keys, p->value_dim);
    b->dout = widen(b, ADDITIVE_DOUT, ADDITIVE_BACKWARD_DOUT, p->batch * p->rows, p->value_dim);
}

static void fill_tensors(const struct clattn_additive_backward *b, const struct run *run, clattn_tensors *tensors,
                         clattn_call *values)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    additive_fill_tensors(&b->scores, run, tensors);
    tensors->value = additive_matrix(steps_matrix(run, b->value), p->keys, p->value_dim);
    tensors->out =
        additive_matrix(steps_matrix(run, layer_section(ADDITIVE_BACKWARD_OUT, 0, 0)), p->rows, p->value_dim);
    tensors->lse = additive_matrix(steps_matrix(run, layer_section(ADDITIVE_BACKWARD_LSE, 0, 0)), p->rows, 1);
    values->has_scale = 1; /* of 0: the scores are in the bias */
}

static clattn_status call_forward(const void *of, const struct run *run, cl_mem workspace, struct call *call)
{
    const struct clattn_additive_backward *b = of;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    fill_tensors(b, run, &tensors, &values);
    tensors.workspace = workspace;
    return call_from_device(&b->problem->forward, &values, &tensors, call);
}

static void attend(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    struct additive_scores *scores = &b->scores;
    struct steps *steps = &b->layer.steps;
    scores->attention = &b->problem->forward;
    scores->call = call_forward;
    scores->of = b;
    scores->query = b->sides[ADDITIVE_QUERY_SIDE].wide_input;
    scores->key = b->sides[ADDITIVE_KEY_SIDE].wide_input;
    scores->wq = b->sides[ADDITIVE_QUERY_SIDE].wide_weight;
    scores->wk = b->sides[ADDITIVE_KEY_SIDE].wide_weight;
    scores->score = layer_section(ADDITIVE_BACKWARD_SCORE, 0, 0);
    scores->zero = layer_section(ADDITIVE_BACKWARD_ZERO, 0, 0);
    scores->queries = units_at(b, ADDITIVE_BACKWARD_QUERY_UNITS);
    scores->keys = layer_section(ADDITIVE_BACKWARD_TURNED_KEYS, 0, scores->key_stride);
    scores->scores = layer_section(ADDITIVE_BACKWARD_SCORES, 0, scores->key_stride);
    steps_need(steps, scores->zero, 1, 1);
    steps_need(steps, layer_section(ADDITIVE_BACKWARD_OUT, 0, 0), p->batch * p->rows, p->value_dim);
    steps_need(steps, layer_section(ADDITIVE_BACKWARD_LSE, 0, 0), p->batch * p->rows, 1);
    additive_scores_add(steps, scores);
    steps_add_child(steps, ADDITIVE_BACKWARD_FORWARD, call_forward, b);
}

/* ---- backwards -------------------------------------------------------------------------------- */

static clattn_status call_backward(const void *of, const struct run *run, cl_mem workspace, struct call *call)
{
    const struct clattn_additive_backward *b = of;
    const clattn_additive_problem *p = &b->problem->layer.p;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_gradients gradients = CLATTN_GRADIENTS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    fill_tensors(b, run, &tensors, &values);
    gradients.dout = additive_matrix(steps_matrix(run, b->dout), p->rows, p->value_dim);
    gradients.dvalue =
        additive_matrix(steps_matrix(run, layer_section(ADDITIVE_BACKWARD_DVALUE, 0, 0)), p->keys, p->value_dim);
    gradients.workspace = workspace;
    return backward_call_from_device(&b->problem->backward, &values, &tensors, &gradients, call);
}

/* What the two kernels are told that make D of each row, then dS in place of dP. */
static clattn_additive_ds ds_values(const struct clattn_additive_backward *b, const struct run *run)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    const clattn_additive_ds values = {
        .dout_at = steps_matrix(run, b->dout).offset,
        .out_at = element_of(run, ADDITIVE_BACKWARD_OUT),
        .lse_at = element_of(run, ADDITIVE_BACKWARD_LSE),
        .terms_at = element_of(run, ADDITIVE_BACKWARD_TERMS),
        .scores_at = element_of(run, ADDITIVE_BACKWARD_SCORES),
        .ds_at = element_of(run, ADDITIVE_BACKWARD_DS),
        .score_stride = b->scores.key_stride,
        .value_dim = (int)p->value_dim,
        .all_rows = (int)(p->batch * p->rows),
    };
    return values;
}

/* Either kernel: their arguments are the same. */
static clattn_status enqueue_of_rows(const struct step *step, const struct run *run, struct kernel *kernel,
                                     size_t items_all, size_t items)
{
    const struct clattn_additive_backward *b = step->of;
    const clattn_additive_ds values = ds_values(b, run);
    const struct tensor_place *given = run->operands->tensor;
    const struct matrix dout = steps_matrix(run, b->dout);
    const size_t local[3] = { items, 1, 1 }, global[3] = { items_all, 1, 1 };
    struct call call;
    clattn_params params;
    const clattn_status status = call_forward(b, run, NULL, &call); /* whose masks hide */
    const struct launch_argument arguments[] = { ARGUMENT(params),
                                                 ARGUMENT(values),
                                                 ARGUMENT(given[ADDITIVE_MASK].buffer),
                                                 ARGUMENT(given[ADDITIVE_KEY_LENGTHS].buffer),
                                                 ARGUMENT(dout.buffer),
                                                 ARGUMENT(run->operands->workspace) };
    if (status != CLATTN_OK) {
        return status;
    }
    params_fill(&b->problem->forward, &call, CLATTN_TAKES_ALL, &params);
    return launch(run->chain, kernel, 3, global, local, 6, arguments);
}

static clattn_status enqueue_row_terms(const struct step *step, const struct run *run)
{
    const struct clattn_additive_backward *b = step->of;
    const clattn_additive_problem *p = &b->problem->layer.p;
    const size_t rows = (size_t)round_up(p->batch * p->rows, (int64_t)b->ds_items);
    return enqueue_of_rows(step, run, b->row_terms, rows, b->ds_items);
}

static clattn_status enqueue_ds(const struct step *step, const struct run *run)
{
    const struct clattn_additive_backward *b = step->of;
    const clattn_additive_problem *p = &b->problem->layer.p;
    return enqueue_of_rows(step, run, b->ds, b->ds_items * (size_t)(p->batch * p->rows), b->ds_items);
}

/* dP [batch][rows][keys] = dout value^T, then dS in its place. */
static void differentiate_softmax(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    const struct product_batch batch = { p->batch, p->rows * p->value_dim, p->keys * p->value_dim, p->rows * p->keys };
    const struct step row_terms = { .enqueue = enqueue_row_terms, .of = b }, ds = { .enqueue = enqueue_ds, .of = b };
    struct steps *steps = &b->layer.steps;
    matrices_multiply_batch(steps, &b->matrices.projector, b->dout, b->value,
                            layer_section(ADDITIVE_BACKWARD_DS, 0, p->keys), p->rows, p->keys, p->value_dim, batch);
    steps_need(steps, layer_section(ADDITIVE_BACKWARD_TERMS, 0, 0), p->batch * p->rows, ADDITIVE_TERMS);
    steps_add(steps, &row_terms);
    steps_add(steps, &ds);
}

/* The gradients at the hidden units of one side; of queries also dscore's partial sums. */
static clattn_status enqueue_sums(const struct step *step, const struct run *run)
{
    const struct clattn_additive_backward *b = step->of;
    const clattn_additive_problem *p = &b->problem->layer.p;
    const int is_query = step->flag == ADDITIVE_QUERY_SIDE;
    const struct additive_side *mine = &b->sides[step->flag], *theirs = &b->sides[1 - step->flag];
    const clattn_additive_sums params = {
        .own_at = element_of(run, mine->units),
        .other_at = element_of(run, theirs->units),
        .score_at = element_of(run, ADDITIVE_BACKWARD_SCORE),
        .ds_at = element_of(run, ADDITIVE_BACKWARD_DS),
        .sums_at = element_of(run, mine->dunits),
        .partials_at = element_of(run, ADDITIVE_BACKWARD_PARTIALS),
        .ds_batch = p->rows * p->keys,
        .ds_own = is_query ? p->keys : 1,
        .ds_other = is_query ? 1 : p->keys,
        .own_len = (int)(is_query ? p->rows : p->keys),
        .other_len = (int)(is_query ? p->keys : p->rows),
        .hidden_dim = (int)p->hidden_dim,
        .hidden_stride = (int)b->hidden_stride,
        .has_partials = is_query && b->partials > 0,
    };
    const size_t items = b->sum_items;
    const int64_t units = ceil_div(p->hidden_dim, b->scores.lanes);
    const size_t global[3] = { (size_t)round_up(units, (int64_t)items),
                               (size_t)ceil_div(params.own_len, ADDITIVE_SUM_ROWS), (size_t)p->batch };
    const size_t local[3] = { items, 1, 1 };
    const struct launch_argument arguments[] = { ARGUMENT(params), ARGUMENT(run->operands->workspace) };
    return launch(run->chain, b->sums, 3, global, local, 2, arguments);
}

static void sum_pairs(struct clattn_additive_backward *b, int side)
{
    const struct step step = { .enqueue = enqueue_sums, .of = b, .flag = side };
    steps_need(&b->layer.steps, units_at(b, b->sides[side].dunits), b->sides[side].rows, b->hidden_stride);
    if (side == ADDITIVE_QUERY_SIDE) {
        steps_need(&b->layer.steps, units_at(b, ADDITIVE_BACKWARD_PARTIALS), b->partials, b->hidden_stride);
    }
    steps_add(&b->layer.steps, &step);
}

static void differentiate_scores(struct clattn_additive_backward *b)
{
    const struct additive_side *keys = &b->sides[ADDITIVE_KEY_SIDE];
    differentiate_softmax(b);
    /* The keys' hidden units once more, each key's side by side. */
    matrices_multiply(&b->layer.steps, &b->matrices.projector, keys->wide_input, keys->wide_weight, LAYER_NOWHERE,
                      units_at(b, keys->units), keys->rows, b->problem->layer.p.hidden_dim, keys->dim);
    for (int side = 0; side < ADDITIVE_SIDES; ++side) {
        if (b->sides[side].needs_dunits) {
            sum_pairs(b, side);
        }
    }
}

/* ---- results ---------------------------------------------------------------------------------- */

static void give(struct clattn_additive_backward *b, enum additive_backward_section from, int id, uint32_t bit,
                 int64_t count, int is_zero)
{
    matrices_give(&b->layer.steps, &b->matrices, layer_section((int)from, 0, 0), layer_tensor(id, 0, 0), count,
                  (b->problem->p.accumulate & bit) != 0, is_zero);
}

static void give_weight(struct clattn_additive_backward *b, const struct additive_side *side, int is_zero)
{
    static const struct matrix_scratch scratch = {
        { PLACE_OF_SECTION(ADDITIVE_BACKWARD_LEFT), 0, 0 },
        { PLACE_OF_SECTION(ADDITIVE_BACKWARD_RIGHT), 0, 0 },
        { PLACE_OF_SECTION(ADDITIVE_BACKWARD_MARKS), 0, 1 },
        { PLACE_OF_SECTION(ADDITIVE_BACKWARD_RESULT), 0, 0 },
    };
    const int64_t hidden = b->problem->layer.p.hidden_dim;
    if (!is_zero) {
        matrices_weight_gradient(&b->layer.steps, &b->matrices, units_at(b, side->dunits), side->wide_input, &scratch,
                                 side->rows, hidden, side->dim);
    }
    give(b, ADDITIVE_BACKWARD_RESULT, side->dweight, side->weight_bit, hidden * side->dim, is_zero);
}

static void give_input(struct clattn_additive_backward *b, const struct additive_side *side, int is_zero)
{
    const int64_t hidden = b->problem->layer.p.hidden_dim;
    const struct place turned = layer_section(ADDITIVE_BACKWARD_WEIGHT, 0, hidden);
    if (!is_zero) {
        matrices_transpose(&b->layer.steps, &b->matrices, 1, layer_tensor(side->weight, 0, side->dim), LAYER_NOWHERE,
                           turned, hidden, side->dim);
        matrices_multiply(&b->layer.steps, &b->matrices.projector, units_at(b, side->dunits), turned, LAYER_NOWHERE,
                          layer_section(ADDITIVE_BACKWARD_RESULT, 0, side->dim), side->rows, side->dim, hidden);
    }
    give(b, ADDITIVE_BACKWARD_RESULT, side->dinput, side->input_bit, side->rows * side->dim, is_zero);
}

static void give_score(struct clattn_additive_backward *b, int is_zero)
{
    const int64_t hidden = b->problem->layer.p.hidden_dim;
    if (!is_zero) {
        matrices_sum_columns(&b->layer.steps, &b->matrices, units_at(b, ADDITIVE_BACKWARD_PARTIALS),
                             layer_section(ADDITIVE_BACKWARD_RESULT, 0, 0), b->partials, hidden);
    }
    give(b, ADDITIVE_BACKWARD_RESULT, ADDITIVE_DSCORE, CLATTN_ADDITIVE_GRADIENT_SCORE, hidden, is_zero);
}

static void give_all(struct clattn_additive_backward *b, int is_zero)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    for (int i = 0; i < ADDITIVE_SIDES; ++i) {
        const struct additive_side *side = &b->sides[i];
        if (wants(b, side->weight_bit)) {
            give_weight(b, side, is_zero);
        }
        if (wants(b, side->input_bit)) {
            give_input(b, side, is_zero);
        }
    }
    if (wants(b, CLATTN_ADDITIVE_GRADIENT_SCORE)) {
        give_score(b, is_zero);
    }
    if (wants(b, CLATTN_ADDITIVE_GRADIENT_VALUE)) {
        give(b, ADDITIVE_BACKWARD_DVALUE, ADDITIVE_DVALUE, CLATTN_ADDITIVE_GRADIENT_VALUE,
             p->batch * p->keys * p->value_dim, is_zero);
    }
}

static void add_attention(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    widen_inputs(b);
    attend(b);
    if (wants(b, CLATTN_ADDITIVE_GRADIENT_VALUE)) {
        steps_need(&b->layer.steps, layer_section(ADDITIVE_BACKWARD_DVALUE, 0, 0), p->batch * p->keys, p->value_dim);
        steps_add_child(&b->layer.steps, ADDITIVE_BACKWARD_BACKWARD, call_backward, b);
    }
    if (wants(b, ADDITIVE_GRADIENTS_OF_SCORES)) {
        differentiate_scores(b);
    }
}

void additive_backward_add_steps(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    const int is_zero = p->batch == 0 || p->rows == 0 || p->keys == 0; /* no query meets a key */
    if (!is_zero) {
        add_attention(b);
    }
    give_all(b, is_zero);
}
