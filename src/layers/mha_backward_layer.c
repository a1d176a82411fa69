/* Planning a multi-head layer's gradients: sources and parts, sections, the plans of attention. */
#include "layers/mha_backward_layer.h"

#include <stdlib.h>

#include "base/error.h"
#include "layers/sections.h"

/* ---- parts ------------------------------------------------------------------------------------ */

static void plan_sources(struct clattn_mha_backward *b)
{
    const clattn_mha_problem *p = &b->problem.layer.p;
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

/* Returns the elements of all parts. */
static int64_t plan_parts(struct clattn_mha_backward *b)
{
    static const struct mha_part separate[MHA_PARTS] = {
        { MHA_WQ, MHA_BQ, MHA_DWQ, MHA_DBQ, CLATTN_MHA_GRADIENT_WQ, CLATTN_MHA_GRADIENT_BQ, 0, 0, 0, 0, NULL },
        { MHA_WK, MHA_BK, MHA_DWK, MHA_DBK, CLATTN_MHA_GRADIENT_WK, CLATTN_MHA_GRADIENT_BK, 0, 0, 0, 0, NULL },
        { MHA_WV, MHA_BV, MHA_DWV, MHA_DBV, CLATTN_MHA_GRADIENT_WV, CLATTN_MHA_GRADIENT_BV, 0, 0, 0, 0, NULL },
    };
    static const uint32_t biases[MHA_PARTS] = { CLATTN_MHA_BIAS_QUERY, CLATTN_MHA_BIAS_KEY, CLATTN_MHA_BIAS_VALUE };
    const struct mha_problem *layer = &b->problem.layer;
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
    return total;
}

/* ---- sections --------------------------------------------------------------------------------- */

static void need(int64_t *elements, enum mha_backward_section at, int64_t count)
{
    elements[at] = count > elements[at] ? count : elements[at];
}

/* What a product left^T right over rows needs. */
static void need_weight_gradient(int64_t *elements, int64_t rows, int64_t left_columns, int64_t right_columns)
{
    need(elements, MHA_BACKWARD_LEFT, rows * left_columns);
    need(elements, MHA_BACKWARD_RIGHT, rows * right_columns);
    need(elements, MHA_BACKWARD_MARKS, rows);
    need(elements, MHA_BACKWARD_RESULT, left_columns * right_columns);
}

static void need_part(const struct clattn_mha_backward *b, const struct mha_part *part, int64_t *elements)
{
    const struct mha_source *source = part->source;
    if (mha_backward_wants(&b->problem, part->weight_bit)) {
        need_weight_gradient(elements, source->rows, part->dim, source->depth);
    }
    if (part->has_bias && mha_backward_wants(&b->problem, part->bias_bit)) {
        need(elements, MHA_BACKWARD_RESULT, part->dim);
    }
    if (b->forward && b->problem.layer.p.type != b->problem.real) { /* widened on their way into the projection */
        need(elements, MHA_BACKWARD_WEIGHT, part->dim * source->depth);
        need(elements, MHA_BACKWARD_BIAS, part->dim);
    }
}

/* Elements of what the products that are asked for read and write on the way, by section. */
static void measure_scratch(const struct clattn_mha_backward *b, int64_t *elements)
{
    const clattn_mha_problem *p = &b->problem.layer.p;
    const int64_t heads_dim = b->problem.layer.heads_dim;
    if (mha_backward_wants(&b->problem, CLATTN_MHA_GRADIENT_BO)) {
        need(elements, MHA_BACKWARD_RESULT, p->out_dim);
    }
    if (mha_backward_wants(&b->problem, CLATTN_MHA_GRADIENT_WO)) {
        need_weight_gradient(elements, p->batch * p->rows, p->out_dim, heads_dim);
    }
    if (b->backward) {
        need(elements, MHA_BACKWARD_WEIGHT, p->out_dim * heads_dim);
    }
    for (int i = 0; i < MHA_PARTS; ++i) {
        need_part(b, &b->parts[i], elements);
    }
    for (int s = 0; s < b->n_sources; ++s) {
        if (mha_backward_wants(&b->problem, b->sources[s].bit)) {
            need(elements, MHA_BACKWARD_WEIGHT, b->sources[s].columns * b->sources[s].depth);
            need(elements, MHA_BACKWARD_RESULT, b->sources[s].rows * b->sources[s].depth);
        }
    }
}

static clattn_status plan_sections(struct clattn_mha_backward *b, int64_t projected)
{
    const clattn_mha_problem *p = &b->problem.layer.p;
    const int64_t size = (int64_t)clattn_type_size(b->problem.real), rows = p->batch * p->rows;
    const int widens = p->type != b->problem.real;
    const size_t forward = b->forward ? b->forward->workspace_bytes : 0;
    const size_t backward = b->backward ? b->backward->workspace_bytes : 0;
    int64_t elements[MHA_BACKWARD_SECTIONS] = {
        [MHA_BACKWARD_X] = widens ? rows * p->model_dim : 0,
        [MHA_BACKWARD_CONTEXT] = widens && b->n_sources > 1 ? b->sources[1].rows * p->context_dim : 0,
        [MHA_BACKWARD_DY] = widens ? rows * p->out_dim : 0,
        [MHA_BACKWARD_PROJECTED] = b->forward ? projected : 0,
        [MHA_BACKWARD_HEADS] = b->forward ? rows * b->problem.layer.heads_dim : 0,
        [MHA_BACKWARD_LSE] = b->forward ? rows * p->query_heads : 0,
        [MHA_BACKWARD_DHEADS] = b->backward ? rows * b->problem.layer.heads_dim : 0,
        [MHA_BACKWARD_DPROJECTED] = b->backward ? projected : 0,
    };
    int64_t bytes[MHA_BACKWARD_SECTIONS];
    measure_scratch(b, elements);
    for (int i = 0; i < MHA_BACKWARD_SECTIONS; ++i) {
        bytes[i] = product_of_extents((const int64_t[]){ elements[i], size }, 2);
    }
    bytes[MHA_BACKWARD_ATTENTION] = (int64_t)(forward > backward ? forward : backward);
    return sections_place(&b->context->device, bytes, b->section_at, MHA_BACKWARD_SECTIONS, &b->workspace_bytes);
}

/* ---- plans ------------------------------------------------------------------------------------ */

/* Multiply-adds of the largest product. */
static double largest_work(const struct clattn_mha_backward *b)
{
    const clattn_mha_problem *p = &b->problem.layer.p;
    double most = (double)(p->batch * p->rows) * (double)p->out_dim * (double)b->problem.layer.heads_dim;
    for (int s = 0; s < b->n_sources; ++s) {
        const struct mha_source *source = &b->sources[s];
        const double work = (double)source->rows * (double)source->columns * (double)source->depth;
        most = work > most ? work : most;
    }
    return most;
}

static clattn_status plan(struct clattn_mha_backward *b, struct text *explain)
{
    const struct mha_backward_problem *problem = &b->problem;
    clattn_status status = CLATTN_OK;
    if (problem->layer.p.type == CLATTN_FLOAT64 && !b->context->device.has_fp64) {
        return error_set(CLATTN_UNSUPPORTED, "type float64: device \"%s\" has no float64", b->context->device.name);
    }
    plan_sources(b);
    const int64_t projected = plan_parts(b);
    if (problem->attention_gradients || mha_backward_wants(problem, CLATTN_MHA_GRADIENT_WO)) {
        status = planner_plan(b->context, &problem->forward.any, &b->forward);
    }
    if (status == CLATTN_OK && problem->attention_gradients) {
        status = planner_plan(b->context, &problem->backward.attention.any, &b->backward);
    }
    if (status == CLATTN_OK) {
        status = plan_sections(b, projected);
    }
    return status == CLATTN_OK ? matrices_init(&b->matrices, b->context, problem->layer.p.type, problem->real,
                                               problem->type, problem->layer.p.projection, largest_work(b), explain)
                               : status;
}

static void explain_plans(const struct clattn_mha_backward *b, struct text *text)
{
    text_append(text, "workspace in all: %zu bytes\n", b->workspace_bytes);
    if (b->forward) {
        text_append(text, "attention, once more, for its results and lse:\n%s", b->forward->explain);
    }
    if (b->backward) {
        text_append(text, "attention's gradients:\n%s", b->backward->explain);
    }
}

clattn_status mha_backward_create(clattn_context *context, const struct mha_backward_problem *problem,
                                  struct clattn_mha_backward **result)
{
    struct text explain = TEXT_INIT;
    struct clattn_mha_backward *b = calloc(1, sizeof(*b));
    if (!b) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a layer's gradients");
    }
    b->context = context;
    b->problem = *problem;
    clattn_status status = plan(b, &explain);
    if (status == CLATTN_OK) {
        status = rehearse(context, mha_backward_rehearsed, b);
    }
    if (status == CLATTN_OK) {
        explain_plans(b, &explain);
        status = text_give(&explain, "a layer's explanation", &b->explain);
    }
    text_free(&explain);
    if (status != CLATTN_OK) {
        mha_backward_destroy(b);
        return status;
    }
    *result = b;
    return CLATTN_OK;
}

void mha_backward_destroy(struct clattn_mha_backward *b)
{
    if (b) {
        planner_destroy(b->forward);
        planner_destroy(b->backward);
        free(b->explain);
        free(b);
    }
}
