/* Planning the gradients of additive attention: sides, sections, kernels, the plans of attention. */
#include "layers/additive_backward_layer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cl/additive_params.h"
#include "layers/sections.h"

static void plan_sides(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem.layer.p;
    const uint32_t of_query = CLATTN_ADDITIVE_GRADIENT_QUERY | CLATTN_ADDITIVE_GRADIENT_WQ;
    const uint32_t of_key = CLATTN_ADDITIVE_GRADIENT_KEY | CLATTN_ADDITIVE_GRADIENT_WK;
    b->sides[ADDITIVE_QUERY_SIDE] = (struct additive_side){
        .input = ADDITIVE_QUERY,
        .weight = ADDITIVE_WQ,
        .dinput = ADDITIVE_DQUERY,
        .dweight = ADDITIVE_DWQ,
        .input_bit = CLATTN_ADDITIVE_GRADIENT_QUERY,
        .weight_bit = CLATTN_ADDITIVE_GRADIENT_WQ,
        .wide_input = ADDITIVE_BACKWARD_QUERY,
        .wide_weight = ADDITIVE_BACKWARD_WQ,
        .units = ADDITIVE_BACKWARD_QUERY_UNITS,
        .dunits = ADDITIVE_BACKWARD_DQUERY_UNITS,
        .rows = p->batch * p->rows,
        .dim = p->query_dim,
        /* The sums that dscore is made of come with these. */
        .needs_dunits = additive_backward_wants(&b->problem, of_query | CLATTN_ADDITIVE_GRADIENT_SCORE),
    };
    b->sides[ADDITIVE_KEY_SIDE] = (struct additive_side){
        .input = ADDITIVE_KEY,
        .weight = ADDITIVE_WK,
        .dinput = ADDITIVE_DKEY,
        .dweight = ADDITIVE_DWK,
        .input_bit = CLATTN_ADDITIVE_GRADIENT_KEY,
        .weight_bit = CLATTN_ADDITIVE_GRADIENT_WK,
        .wide_input = ADDITIVE_BACKWARD_KEY,
        .wide_weight = ADDITIVE_BACKWARD_WK,
        .units = ADDITIVE_BACKWARD_KEY_UNITS,
        .dunits = ADDITIVE_BACKWARD_DKEY_UNITS,
        .rows = p->batch * p->keys,
        .dim = p->key_dim,
        .needs_dunits = additive_backward_wants(&b->problem, of_key),
    };
}

/* ---- sections --------------------------------------------------------------------------------- */

/* Bytes of so many floats; -1 where that does not fit 64 bits. */
static int64_t bytes_of(int64_t a, int64_t b, int64_t c)
{
    const int64_t factors[] = { a, b, c, sizeof(float) };
    return product_of_extents(factors, 4);
}

/* A section that several steps use after one another. */
static void need(int64_t *bytes, enum additive_backward_section at, int64_t count)
{
    bytes[at] = count > bytes[at] || count < 0 ? count : bytes[at];
}

/* What the products of a side read and write on the way. */
static void need_products(const struct clattn_additive_backward *b, const struct additive_side *side, int64_t *bytes)
{
    const int64_t hidden = b->problem.layer.p.hidden_dim;
    if (additive_backward_wants(&b->problem, side->weight_bit)) {
        need(bytes, ADDITIVE_BACKWARD_LEFT, bytes_of(1, side->rows, hidden));
        need(bytes, ADDITIVE_BACKWARD_RIGHT, bytes_of(1, side->rows, side->dim));
        need(bytes, ADDITIVE_BACKWARD_MARKS, bytes_of(1, 1, side->rows));
        need(bytes, ADDITIVE_BACKWARD_RESULT, bytes_of(1, hidden, side->dim));
    }
    if (additive_backward_wants(&b->problem, side->input_bit)) {
        need(bytes, ADDITIVE_BACKWARD_WEIGHT, bytes_of(1, hidden, side->dim));
        need(bytes, ADDITIVE_BACKWARD_RESULT, bytes_of(1, side->rows, side->dim));
    }
}

static void need_side(const struct clattn_additive_backward *b, const struct additive_side *side, int64_t *bytes)
{
    const clattn_additive_problem *p = &b->problem.layer.p;
    if (p->type != CLATTN_FLOAT32) {
        bytes[side->wide_input] = bytes_of(1, side->rows, side->dim);
        bytes[side->wide_weight] = bytes_of(1, p->hidden_dim, side->dim);
    }
    if (side->needs_dunits) {
        bytes[side->dunits] = bytes_of(1, side->rows, b->hidden_stride);
    }
    need_products(b, side, bytes);
}

static clattn_status plan_sections(struct clattn_additive_backward *b)
{
    const clattn_additive_problem *p = &b->problem.layer.p;
    const int of_scores = additive_backward_wants(&b->problem, ADDITIVE_GRADIENTS_OF_SCORES);
    const int of_value = additive_backward_wants(&b->problem, CLATTN_ADDITIVE_GRADIENT_VALUE);
    const int widens = p->type != CLATTN_FLOAT32;
    const size_t forward = b->forward->workspace_bytes, backward = b->backward ? b->backward->workspace_bytes : 0;
    int64_t bytes[ADDITIVE_BACKWARD_SECTIONS] = {
        [ADDITIVE_BACKWARD_ZERO] = sizeof(float),
        [ADDITIVE_BACKWARD_VALUE] = widens ? bytes_of(p->batch, p->keys, p->value_dim) : 0,
        [ADDITIVE_BACKWARD_DOUT] = widens ? bytes_of(p->batch, p->rows, p->value_dim) : 0,
        [ADDITIVE_BACKWARD_SCORE] = bytes_of(1, 1, b->hidden_stride),
        [ADDITIVE_BACKWARD_QUERY_UNITS] = bytes_of(p->batch, p->rows, b->hidden_stride),
        [ADDITIVE_BACKWARD_KEY_UNITS] = of_scores ? bytes_of(p->batch, p->keys, b->hidden_stride) : 0,
        [ADDITIVE_BACKWARD_TURNED_KEYS] = bytes_of(p->batch, p->hidden_dim, b->scores.key_stride),
        [ADDITIVE_BACKWARD_SCORES] = bytes_of(p->batch, p->rows, b->scores.key_stride),
        [ADDITIVE_BACKWARD_OUT] = bytes_of(p->batch, p->rows, p->value_dim),
        [ADDITIVE_BACKWARD_LSE] = bytes_of(1, p->batch, p->rows),
        [ADDITIVE_BACKWARD_D] = of_scores ? bytes_of(1, p->batch, p->rows) : 0,
        [ADDITIVE_BACKWARD_DVALUE] = of_value ? bytes_of(p->batch, p->keys, p->value_dim) : 0,
        [ADDITIVE_BACKWARD_DS] = of_scores ? bytes_of(p->batch, p->rows, p->keys) : 0,
        [ADDITIVE_BACKWARD_PARTIALS] = bytes_of(1, b->partials, b->hidden_stride),
        [ADDITIVE_BACKWARD_RESULT] = bytes_of(1, 1, p->hidden_dim),
        [ADDITIVE_BACKWARD_ATTENTION] = (int64_t)(forward > backward ? forward : backward),
    };
    for (int i = 0; i < ADDITIVE_SIDES; ++i) {
        need_side(b, &b->sides[i], bytes);
    }
    return sections_place(&b->context->device, bytes, b->section_at, ADDITIVE_BACKWARD_SECTIONS, &b->workspace_bytes);
}

/* ---- plans ------------------------------------------------------------------------------------ */

static clattn_status build_ds(struct clattn_additive_backward *b)
{
    static const char file[] = "additive_ds.cl", options[] = "-D TYPE=1"; /* float32 */
    size_t of_rows = 1;
    clattn_status status = program_kernel(b->context, file, options, "additive_row_terms", &b->row_terms);
    if (status == CLATTN_OK) {
        status = program_kernel(b->context, file, options, "additive_ds", &b->ds);
    }
    if (status == CLATTN_OK) {
        status = additive_group_items(b->context, b->row_terms, &of_rows);
    }
    if (status == CLATTN_OK) {
        status = additive_group_items(b->context, b->ds, &b->ds_items);
    }
    b->ds_items = of_rows < b->ds_items ? of_rows : b->ds_items;
    return status;
}

static clattn_status build_sums(struct clattn_additive_backward *b)
{
    char options[48];
    snprintf(options, sizeof(options), "-D TYPE=%d -D VEC=%d", (int)CLATTN_FLOAT32, b->scores.lanes);
    const clattn_status status = program_kernel(b->context, "additive_sums.cl", options, "additive_sums", &b->sums);
    return status == CLATTN_OK ? additive_group_items(b->context, b->sums, &b->sum_items) : status;
}

static clattn_status plan(struct clattn_additive_backward *b, struct text *explain)
{
    const clattn_additive_problem *p = &b->problem.layer.p;
    const int64_t blocks = (p->rows + ADDITIVE_SUM_ROWS - 1) / ADDITIVE_SUM_ROWS;
    b->hidden_stride = additive_stride(p->hidden_dim);
    b->partials = additive_backward_wants(&b->problem, CLATTN_ADDITIVE_GRADIENT_SCORE) ? p->batch * blocks : 0;
    plan_sides(b);
    clattn_status status = planner_plan(b->context, &b->problem.forward.any, &b->forward);
    if (status == CLATTN_OK && additive_backward_wants(&b->problem, CLATTN_ADDITIVE_GRADIENT_VALUE)) {
        status = planner_plan(b->context, &b->problem.backward.attention.any, &b->backward);
    }
    if (status == CLATTN_OK) {
        status = matrices_init(&b->matrices, b->context, p->type, CLATTN_FLOAT32, b->problem.type,
                               CLATTN_PROJECTION_AUTO, additive_projection_work(p), explain);
    }
    if (status == CLATTN_OK) {
        status = additive_scores_init(&b->scores, b->context, p, CLATTN_FLOAT32, &b->matrices.projector, explain);
    }
    const int has_scores = additive_backward_wants(&b->problem, ADDITIVE_GRADIENTS_OF_SCORES);
    if (status == CLATTN_OK && has_scores) {
        status = build_ds(b);
    }
    if (status == CLATTN_OK && has_scores) {
        status = build_sums(b);
    }
    return status == CLATTN_OK ? plan_sections(b) : status;
}

static void explain_plans(const struct clattn_additive_backward *b, struct text *text)
{
    if (additive_backward_wants(&b->problem, ADDITIVE_GRADIENTS_OF_SCORES)) {
        text_append(text, "sums over pairs: %d hidden units x %d rows or keys a work-item\n", b->scores.lanes,
                    ADDITIVE_SUM_ROWS);
    }
    text_append(text, "workspace in all: %zu bytes\nsoftmax and value mixing, once more, with the scores as bias:\n%s",
                b->workspace_bytes, b->forward->explain);
    if (b->backward) {
        text_append(text, "dvalue:\n%s", b->backward->explain);
    }
}

clattn_status additive_backward_create(clattn_context *context, const struct additive_backward_problem *problem,
                                       struct clattn_additive_backward **result)
{
    struct text explain = TEXT_INIT;
    struct clattn_additive_backward *b = calloc(1, sizeof(*b));
    if (!b) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the gradients of additive attention");
    }
    b->context = context;
    b->problem = *problem;
    clattn_status status = plan(b, &explain);
    if (status == CLATTN_OK) {
        status = rehearse(context, additive_backward_rehearsed, b);
    }
    if (status == CLATTN_OK) {
        explain_plans(b, &explain);
        status = text_give(&explain, "an explanation", &b->explain);
    }
    text_free(&explain);
    if (status != CLATTN_OK) {
        additive_backward_destroy(b);
        return status;
    }
    *result = b;
    return CLATTN_OK;
}

void additive_backward_destroy(struct clattn_additive_backward *b)
{
    if (b) {
        planner_destroy(b->forward);
        planner_destroy(b->backward);
        free(b->explain);
        free(b);
    }
}
