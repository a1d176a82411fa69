/* Planning a multi-head layer's gradients: sources and parts, the plans of attention. mha_backward_steps.c has the
 * steps. */
#include "layers/mha_backward_steps.h"

#include "base/error.h"

/* ---- parts ------------------------------------------------------------------------------------ */

static void plan_sources(struct clattn_mha_backward *b)
{
    const clattn_mha_problem *p = &b->problem->layer.p;
    const int cross = (p->parts & CLATTN_MHA_CROSS) != 0;
    b->n_sources = cross ? 2 : 1;
    b->sources[0] = (struct mha_source){
        .input = MHA_X,
        .gradient = MHA_DX,
        .bit = CLATTN_MHA_GRADIENT_X,
        .first_part = 0,
        .end_part = cross ? 1 : MHA_PARTS,
        .rows = p->batch * p->rows,
        .depth = p->model_dim,
    };
    b->sources[1] = (struct mha_source){
        .input = MHA_CONTEXT,
        .gradient = MHA_DCONTEXT,
        .bit = CLATTN_MHA_GRADIENT_CONTEXT,
        .first_part = 1,
        .end_part = MHA_PARTS,
        .rows = p->batch * p->context_rows,
        .depth = p->context_dim,
    };
}

static void plan_parts(struct clattn_mha_backward *b)
{
    static const struct mha_part separate[MHA_PARTS] = {
        { MHA_WQ, MHA_BQ, MHA_DWQ, MHA_DBQ, CLATTN_MHA_GRADIENT_WQ, CLATTN_MHA_GRADIENT_BQ, 0, 0, 0, 0, NULL },
        { MHA_WK, MHA_BK, MHA_DWK, MHA_DBK, CLATTN_MHA_GRADIENT_WK, CLATTN_MHA_GRADIENT_BK, 0, 0, 0, 0, NULL },
        { MHA_WV, MHA_BV, MHA_DWV, MHA_DBV, CLATTN_MHA_GRADIENT_WV, CLATTN_MHA_GRADIENT_BV, 0, 0, 0, 0, NULL },
    };
    static const uint32_t biases[MHA_PARTS] = { CLATTN_MHA_BIAS_QUERY, CLATTN_MHA_BIAS_KEY, CLATTN_MHA_BIAS_VALUE };
    const struct mha_problem *layer = &b->problem->layer;
    const int64_t dims[MHA_PARTS] = { layer->query_dim, layer->key_dim, layer->value_dim };
    const int packed = (layer->p.parts & CLATTN_MHA_PACKED) != 0;
    int64_t total = 0, first_row = 0;
    for (int s = 0; s < b->n_sources; ++s) {
        struct mha_source *source = &b->sources[s];
        for (int i = source->first_part; i < source->end_part; ++i) {
            struct mha_part *part = &b->parts[i];
            *part = separate[packed ? 0 : i];
            part->has_bias = (layer->p.parts & biases[i]) != 0;
            part->first_row = packed ? first_row : 0;
            part->dim = dims[i];
            part->at = total + source->columns;
            part->source = source;
            source->columns += dims[i];
            first_row += dims[i];
        }
        total += source->rows * source->columns;
    }
}

/* ---- plans ------------------------------------------------------------------------------------ */

/* Multiply-adds of the largest product. */
static double largest_work(const struct clattn_mha_backward *b)
{
    const clattn_mha_problem *p = &b->problem->layer.p;
    double most = (double)(p->batch * p->rows) * (double)p->out_dim * (double)b->problem->layer.heads_dim;
    for (int s = 0; s < b->n_sources; ++s) {
        const struct mha_source *source = &b->sources[s];
        const double work = (double)source->rows * (double)source->columns * (double)source->depth;
        most = work > most ? work : most;
    }
    return most;
}

static clattn_status plan(struct layer *layer, struct text *explain)
{
    struct clattn_mha_backward *b = (struct clattn_mha_backward *)layer;
    b->problem = mha_backward_problem_of(layer->problem);
    const struct mha_backward_problem *problem = b->problem;
    clattn_status status = CLATTN_OK;
    if (problem->layer.p.type == CLATTN_FLOAT64 && !layer->context->device.has_fp64) {
        return error_set(CLATTN_UNSUPPORTED, "type float64: device \"%s\" has no float64", layer->context->device.name);
    }
    steps_begin(&layer->steps, layer->context, clattn_type_size(problem->real));
    steps_section_elements(&layer->steps, MHA_BACKWARD_LSE, sizeof(float));
    b->differentiates = problem->attention_gradients != 0;
    b->attends = b->differentiates || mha_backward_wants(problem, CLATTN_MHA_GRADIENT_WO);
    plan_sources(b);
    plan_parts(b);
    if (b->attends) {
        status = steps_plan_child(&layer->steps, MHA_BACKWARD_FORWARD, MHA_BACKWARD_ATTENTION, &problem->forward.any);
    }
    if (status == CLATTN_OK && b->differentiates) {
        status = steps_plan_child(&layer->steps, MHA_BACKWARD_BACKWARD, MHA_BACKWARD_ATTENTION,
                                  &problem->backward.attention.any);
    }
    if (status == CLATTN_OK) {
        status = matrices_init(&b->matrices, layer->context, problem->layer.p.type, problem->real, problem->type,
                               problem->layer.p.projection, largest_work(b), explain);
    }
    if (status == CLATTN_OK) {
        mha_backward_add_steps(b);
    }
    return status;
}

static void explain(const struct layer *layer, struct text *text)
{
    const struct clattn_plan *const *plans = (const struct clattn_plan *const *)layer->steps.child;
    text_append(text, "workspace in all: %zu bytes\n", layer->steps.workspace_bytes);
    if (plans[MHA_BACKWARD_FORWARD]) {
        text_append(text, "attention, once more, for its results and lse:\n%s", plans[MHA_BACKWARD_FORWARD]->explain);
    }
    if (plans[MHA_BACKWARD_BACKWARD]) {
        text_append(text, "attention's gradients:\n%s", plans[MHA_BACKWARD_BACKWARD]->explain);
    }
}

const struct layer_kind layer_mha_backward = {
    .operation = &operation_mha_backward,
    .argument = "backward",
    .bytes = sizeof(struct clattn_mha_backward),
    .plan = plan,
    .explain = explain,
};
