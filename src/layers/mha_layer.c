/* Planning a multi-head layer: which multiplies there are, where their results lie, the attention's plan.
 *
 *     workspace   [ query | key | value ][ heads' results ][ weights of all heads ][ attention's own ]
 *
 * Packed weights make rows of query, key and value side by side, separate ones a block each; the attention
 * reads either by its strides. */
#include "layers/mha_layer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "layers/sections.h"

/* Appends a step, and says where its parts (0: query, 1: key, 2: value) come to lie. */
static void add_step(struct clattn_mha *mha, int first_part, int end_part, int64_t *total)
{
    static const enum mha_tensor weights[3] = { MHA_WQ, MHA_WK, MHA_WV };
    static const enum mha_tensor biases[3] = { MHA_BQ, MHA_BK, MHA_BV };
    static const uint32_t bits[3] = { CLATTN_MHA_BIAS_QUERY, CLATTN_MHA_BIAS_KEY, CLATTN_MHA_BIAS_VALUE };
    const struct mha_problem *problem = &mha->problem;
    const clattn_mha_problem *p = &problem->p;
    const int packed = (p->parts & CLATTN_MHA_PACKED) != 0;
    const int64_t dims[3] = { problem->query_dim, problem->key_dim, problem->value_dim };
    struct mha_step *step = &mha->steps[mha->n_steps++];
    memset(step, 0, sizeof(*step));
    const int is_context = first_part > 0 && (p->parts & CLATTN_MHA_CROSS) != 0;
    step->source = is_context ? MHA_CONTEXT : MHA_X;
    step->rows = p->batch * (is_context ? p->context_rows : p->rows);
    step->depth = is_context ? p->context_dim : p->model_dim;
    step->weight = packed ? MHA_WQ : weights[first_part];
    step->bias = packed ? MHA_BQ : biases[first_part];
    step->has_bias = (p->parts & bits[packed ? 0 : first_part]) != 0;
    step->result_at = *total;
    for (int part = 0; packed && part < first_part; ++part) {
        step->first_row += dims[part];
    }
    for (int part = first_part; part < end_part; ++part) {
        mha->part_at[part] = *total + step->columns;
        step->columns += dims[part];
    }
    step->result_row = step->columns;
    for (int part = first_part; part < end_part; ++part) {
        mha->part_row[part] = step->result_row;
    }
    *total += step->rows * step->columns;
}

static void plan_steps(struct clattn_mha *mha, int64_t *total)
{
    const uint32_t parts = mha->problem.p.parts;
    *total = 0;
    if (parts & CLATTN_MHA_PACKED && !(parts & CLATTN_MHA_CROSS)) {
        add_step(mha, 0, 3, total);
        return;
    }
    add_step(mha, 0, 1, total);
    if (parts & CLATTN_MHA_PACKED) {
        add_step(mha, 1, 3, total);
        return;
    }
    add_step(mha, 1, 2, total);
    add_step(mha, 2, 3, total);
}

static clattn_status plan_sections(struct clattn_mha *mha, int64_t projected)
{
    const clattn_mha_problem *p = &mha->problem.p;
    const int64_t size = (int64_t)clattn_type_size(p->type), real = p->type == CLATTN_FLOAT64 ? 8 : 4;
    const int64_t heads[4] = { p->batch, p->rows, mha->problem.heads_dim, size };
    const int64_t weights[5] = { p->batch, p->rows, p->context_rows, p->query_heads, real };
    const int64_t bytes[MHA_SECTIONS] = {
        [MHA_SECTION_PROJECTED] = product_of_extents((const int64_t[]){ projected, size }, 2),
        [MHA_SECTION_HEADS] = product_of_extents(heads, 4),
        [MHA_SECTION_WEIGHTS] = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE ? product_of_extents(weights, 5) : 0,
        [MHA_SECTION_ATTENTION] = (int64_t)mha->attention->workspace_bytes,
    };
    return sections_place(&mha->context->device, bytes, mha->section_at, MHA_SECTIONS, &mha->workspace_bytes);
}

/* Multiply-adds of the largest projection. */
static double largest_work(const struct clattn_mha *mha)
{
    const clattn_mha_problem *p = &mha->problem.p;
    double most = (double)(p->batch * p->rows) * (double)p->out_dim * (double)mha->problem.heads_dim;
    for (int i = 0; i < mha->n_steps; ++i) {
        const struct mha_step *step = &mha->steps[i];
        const double work = (double)step->rows * (double)step->columns * (double)step->depth;
        most = work > most ? work : most;
    }
    return most;
}

static void explain_steps(const struct clattn_mha *mha, struct text *text)
{
    static const char *const made[4] = { "", ": query, key and value at once", ": key and value at once", "" };
    const clattn_mha_problem *p = &mha->problem.p;
    for (int i = 0; i < mha->n_steps; ++i) {
        const struct mha_step *step = &mha->steps[i];
        const char *what = mha->n_steps == 2 && i == 0 ? "" : made[mha->n_steps];
        text_append(text, "  %s [%" PRId64 ", %" PRId64 "] by rows %" PRId64 " to %" PRId64 " of %s%s\n",
                    operation_mha.rows[step->source].name, step->rows, step->depth, step->first_row,
                    step->first_row + step->columns - 1, operation_mha.rows[step->weight].name, what);
    }
    text_append(text, "  heads' results [%" PRId64 ", %" PRId64 "] by wo\n", p->batch * p->rows,
                mha->problem.heads_dim);
}

static clattn_status plan(struct clattn_mha *mha, struct text *explain)
{
    const clattn_mha_problem *p = &mha->problem.p;
    struct clattn_plan *attention = NULL;
    int64_t projected;
    plan_steps(mha, &projected);
    clattn_status status = planner_plan(mha->context, &mha->problem.attention.any, &attention);
    mha->attention = attention;
    if (status == CLATTN_OK) {
        status = plan_sections(mha, projected);
    }
    if (status == CLATTN_OK) {
        status = projector_init(&mha->projector, mha->context, p->type, p->projection, largest_work(mha), explain);
    }
    if (status == CLATTN_OK && p->weights == CLATTN_MHA_WEIGHTS_AVERAGE) {
        status = program_kernel(mha->context, "mha_average_heads.cl",
                                p->type == CLATTN_FLOAT64 ? "-D TYPE=4" : "-D TYPE=1", "average_heads", &mha->average);
    }
    return status;
}

clattn_status mha_create(clattn_context *context, const struct mha_problem *problem, struct clattn_mha **result)
{
    struct text explain = TEXT_INIT;
    struct clattn_mha *mha = calloc(1, sizeof(*mha));
    if (!mha) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a layer");
    }
    mha->context = context;
    mha->problem = *problem;
    clattn_status status = plan(mha, &explain);
    if (status == CLATTN_OK) {
        status = rehearse(context, mha_rehearsed, mha);
    }
    if (status == CLATTN_OK) {
        explain_steps(mha, &explain);
        text_append(&explain, "workspace of the layer: %zu bytes\nattention:\n%s", mha->workspace_bytes,
                    mha->attention->explain);
        status = text_give(&explain, "a layer's explanation", &mha->explain);
    }
    text_free(&explain);
    if (status != CLATTN_OK) {
        mha_destroy(mha);
        return status;
    }
    *result = mha;
    return CLATTN_OK;
}

void mha_destroy(struct clattn_mha *mha)
{
    if (mha) {
        planner_destroy(mha->attention);
        free(mha->explain);
        free(mha);
    }
}
