/* Planning the gradients of additive attention: sides, kernels, the plans of attention. additive_backward_steps.c has
 * the steps. */
#include <stdio.h>

#include "base/checked_math.h"
#include "cl/layers/additive_params.h"
#include "layers/additive_backward_steps.h"

static int wants(const struct clattn_additive_backward *b, uint32_t gradients)
{
    return additive_backward_wants(b->problem, gradients);
}

static void plan_sides(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    const uint32_t of_query = CLATTN_ADDITIVE_GRADIENT_QUERY | CLATTN_ADDITIVE_GRADIENT_WQ;
    const uint32_t of_key = CLATTN_ADDITIVE_GRADIENT_KEY | CLATTN_ADDITIVE_GRADIENT_WK;
    b->sides[ADDITIVE_QUERY_SIDE] = (struct additive_side){
        .input = ADDITIVE_QUERY,
        .weight = ADDITIVE_WQ,
        .dinput = ADDITIVE_DQUERY,
        .dweight = ADDITIVE_DWQ,
        .input_bit = CLATTN_ADDITIVE_GRADIENT_QUERY,
        .weight_bit = CLATTN_ADDITIVE_GRADIENT_WQ,
        .input_copy = ADDITIVE_BACKWARD_QUERY,
        .weight_copy = ADDITIVE_BACKWARD_WQ,
        .units = ADDITIVE_BACKWARD_QUERY_UNITS,
        .dunits = ADDITIVE_BACKWARD_DQUERY_UNITS,
        .rows = p->batch * p->rows,
        .dim = p->query_dim,
        /* The sums that dscore is made of come with these. */
        .needs_dunits = wants(b, of_query | CLATTN_ADDITIVE_GRADIENT_SCORE),
    };
    b->sides[ADDITIVE_KEY_SIDE] = (struct additive_side){
        .input = ADDITIVE_KEY,
        .weight = ADDITIVE_WK,
        .dinput = ADDITIVE_DKEY,
        .dweight = ADDITIVE_DWK,
        .input_bit = CLATTN_ADDITIVE_GRADIENT_KEY,
        .weight_bit = CLATTN_ADDITIVE_GRADIENT_WK,
        .input_copy = ADDITIVE_BACKWARD_KEY,
        .weight_copy = ADDITIVE_BACKWARD_WK,
        .units = ADDITIVE_BACKWARD_KEY_UNITS,
        .dunits = ADDITIVE_BACKWARD_DKEY_UNITS,
        .rows = p->batch * p->keys,
        .dim = p->key_dim,
        .needs_dunits = wants(b, of_key),
    };
}

/* ---- kernels ---------------------------------------------------------------------------------- */

static clattn_status build_ds(struct clattn_additive_backward *b)
{
    static const char file[] = "layers/additive_ds.cl", options[] = "-D TYPE=1"; /* float32 */
    clattn_context *context = b->layer.context;
    size_t of_rows = 1;
    clattn_status status = program_kernel(context, file, options, "additive_row_terms", &b->row_terms);
    if (status == CLATTN_OK) {
        status = program_kernel(context, file, options, "additive_ds", &b->ds);
    }
    if (status == CLATTN_OK) {
        status = additive_group_items(context, b->row_terms, &of_rows);
    }
    if (status == CLATTN_OK) {
        status = additive_group_items(context, b->ds, &b->ds_items);
    }
    b->ds_items = of_rows < b->ds_items ? of_rows : b->ds_items;
    return status;
}

static clattn_status build_sums(struct clattn_additive_backward *b)
{
    clattn_context *context = b->layer.context;
    char options[48];
    snprintf(options, sizeof(options), "-D TYPE=%d -D VEC=%d", (int)CLATTN_FLOAT32, b->scores.lanes);
    const clattn_status status = program_kernel(context, "layers/additive_sums.cl", options, "additive_sums", &b->sums);
    return status == CLATTN_OK ? additive_group_items(context, b->sums, &b->sum_items) : status;
}

static clattn_status build(struct clattn_additive_backward *b, struct text *explain)
{
    const clattn_additive_problem *p = &b->problem->layer.p;
    clattn_status status = matrices_init(&b->matrices, b->layer.context, p->type, CLATTN_FLOAT32, b->problem->type,
                                         CLATTN_PROJECTION_AUTO, additive_projection_work(p), explain);
    if (status == CLATTN_OK) {
        status = additive_scores_init(&b->scores, b->layer.context, p, CLATTN_FLOAT32, &b->matrices.projector, explain);
    }
    const int has_scores = wants(b, ADDITIVE_GRADIENTS_OF_SCORES);
    if (status == CLATTN_OK && has_scores) {
        status = build_ds(b);
    }
    return status == CLATTN_OK && has_scores ? build_sums(b) : status;
}

/* ---- the layer -------------------------------------------------------------------------------- */

static clattn_status plan(struct layer *layer, struct text *explain)
{
    struct clattn_additive_backward *b = (struct clattn_additive_backward *)layer;
    b->problem = additive_backward_problem_of(layer->problem);
    const clattn_additive_problem *p = &b->problem->layer.p;
    const int64_t blocks = ceil_div(p->rows, ADDITIVE_SUM_ROWS);
    steps_begin(&layer->steps, layer->context, sizeof(float));
    b->hidden_stride = additive_stride(p->hidden_dim);
    b->partials = wants(b, CLATTN_ADDITIVE_GRADIENT_SCORE) ? p->batch * blocks : 0;
    plan_sides(b);
    clattn_status status = steps_plan_child(&layer->steps, ADDITIVE_BACKWARD_FORWARD, ADDITIVE_BACKWARD_ATTENTION,
                                            &b->problem->forward.any);
    if (status == CLATTN_OK && wants(b, CLATTN_ADDITIVE_GRADIENT_VALUE)) {
        status = steps_plan_child(&layer->steps, ADDITIVE_BACKWARD_BACKWARD, ADDITIVE_BACKWARD_ATTENTION,
                                  &b->problem->backward.attention.any);
    }
    if (status == CLATTN_OK) {
        status = build(b, explain);
    }
    if (status == CLATTN_OK) {
        additive_backward_add_steps(b);
    }
    return status;
}

static void explain(const struct layer *layer, struct text *text)
{
    const struct clattn_additive_backward *b = (const struct clattn_additive_backward *)layer;
    const struct clattn_plan *backward = layer->steps.child[ADDITIVE_BACKWARD_BACKWARD];
    if (wants(b, ADDITIVE_GRADIENTS_OF_SCORES)) {
        text_append(text, "sums over pairs: %d hidden units x %d rows or keys a work-item\n", b->scores.lanes,
                    ADDITIVE_SUM_ROWS);
    }
    text_append(text, "workspace in all: %zu bytes\nsoftmax and value mixing, once more, with the scores as bias:\n%s",
                layer->steps.workspace_bytes, layer->steps.child[ADDITIVE_BACKWARD_FORWARD]->explain);
    if (backward) {
        text_append(text, "dvalue:\n%s", backward->explain);
    }
}

const struct layer_kind layer_additive_backward = {
    .operation = &operation_additive_backward,
    .argument = "backward",
    .bytes = sizeof(struct clattn_additive_backward),
    .plan = plan,
    .explain = explain,
};
