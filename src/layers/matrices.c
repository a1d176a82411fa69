/* Launches of cl/layers/layer_matrix.cl, and products made of them and of projections, as steps. */
#include "layers/matrices.h"

#include <stdio.h>

#include "base/checked_math.h"
#include "cl/layers/layer_matrix_params.h"

#define FILE_NAME "layers/layer_matrix.cl"

clattn_status matrices_init(struct matrices *matrices, clattn_context *context, clattn_type given, clattn_type real,
                            clattn_type gradient, clattn_projection wanted, double work, struct text *explain)
{
    char options[2][48];
    snprintf(options[0], sizeof(options[0]), "-D TYPE=%d -D OUT_TYPE=%d", (int)given, (int)gradient);
    snprintf(options[1], sizeof(options[1]), "-D TYPE=%d -D OUT_TYPE=%d", (int)real, (int)gradient);
    const struct {
        const char *options, *name;
        struct kernel **kernel;
    } kernels[] = {
        { options[0], "copy", &matrices->copy },
        { options[0], "transpose", &matrices->transpose_given },
        { options[1], "transpose", &matrices->transpose },
        { options[1], "mark_rows", &matrices->mark_rows },
        { options[1], "sum_columns", &matrices->sum_columns },
        { options[1], "give", &matrices->give },
    };
    clattn_status status = projector_init(&matrices->projector, context, real, wanted, work, explain);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]) && status == CLATTN_OK; ++i) {
        status = program_kernel(context, FILE_NAME, kernels[i].options, kernels[i].name, kernels[i].kernel);
    }
    matrices->items = staged_row_items(&context->device, LAYER_MATRIX_TILE);
    const size_t most = context->device.work_group_limit < context->device.work_item_limit[0]
                            ? context->device.work_group_limit
                            : context->device.work_item_limit[0];
    for (matrices->column_items = LAYER_MATRIX_TILE; matrices->column_items > most;) {
        matrices->column_items /= 2;
    }
    return status;
}

/* Kernels that go from one matrix to another: a work-group of `local` for each `of_group` of `count`. */
static clattn_status launch_each(struct kernel *kernel, const clattn_layer_matrix *params, struct matrix from,
                                 struct matrix to, int64_t count, int64_t of_group, size_t local, struct chain *chain)
{
    const size_t global = (size_t)ceil_div(count, of_group) * local;
    const struct launch_argument arguments[] = { ARGUMENT(*params), ARGUMENT(from.buffer), ARGUMENT(to.buffer) };
    return launch(chain, kernel, 1, &global, &local, 3, arguments);
}

static void need_dense(struct steps *steps, struct place place, int64_t count)
{
    steps_need(steps, place, count, 1);
}

/* Places of a step, in this order. MORE: the marks of kept rows; the right side of a product. */
enum { FROM, TO, MORE, BIAS };

/* ---- copies ----------------------------------------------------------------------------------- */

static clattn_status enqueue_copy(const struct step *step, const struct run *run)
{
    const struct matrices *matrices = step->of;
    const struct matrix from = steps_matrix(run, step->place[FROM]), to = steps_matrix(run, step->place[TO]);
    const clattn_layer_matrix params = { .from_offset = from.offset, .to_offset = to.offset, .count = step->count[0] };
    return launch_each(matrices->copy, &params, from, to, step->count[0], LAYER_MATRIX_RUN, matrices->items,
                       run->chain);
}

void matrices_copy(struct steps *steps, const struct matrices *matrices, struct place from, struct place to,
                   int64_t count)
{
    const struct step step = { enqueue_copy, matrices, { from, to }, { count }, 0, 0, NULL };
    need_dense(steps, to, count);
    steps_add(steps, &step);
}

static clattn_status enqueue_transpose(const struct step *step, const struct run *run)
{
    const struct matrices *matrices = step->of;
    const struct matrix from = steps_matrix(run, step->place[FROM]), to = steps_matrix(run, step->place[TO]);
    const struct matrix kept = steps_matrix(run, step->place[MORE]);
    const int64_t rows = step->count[0], columns = step->count[1];
    const clattn_layer_matrix params = {
        .from_offset = from.offset,
        .to_offset = to.offset,
        .kept_offset = kept.offset,
        .from_row = from.stride,
        .to_row = to.stride,
        .rows = (int)rows,
        .columns = (int)columns,
        .has_kept = kept.buffer != NULL,
    };
    const size_t local[2] = { matrices->items, 1 };
    const size_t global[2] = { (size_t)ceil_div(rows, LAYER_MATRIX_TILE) * local[0],
                               (size_t)ceil_div(columns, LAYER_MATRIX_TILE) };
    const struct launch_argument arguments[] = { ARGUMENT(params), ARGUMENT(from.buffer), ARGUMENT(kept.buffer),
                                                 ARGUMENT(to.buffer) };
    return launch(run->chain, step->flag ? matrices->transpose_given : matrices->transpose, 2, global, local, 4,
                  arguments);
}

void matrices_transpose(struct steps *steps, const struct matrices *matrices, int is_given, struct place from,
                        struct place kept, struct place to, int64_t rows, int64_t columns)
{
    const struct step step = { enqueue_transpose, matrices, { from, to, kept }, { rows, columns }, is_given, 0, NULL };
    steps_need(steps, to, columns, to.stride);
    steps_add(steps, &step);
}

/* ---- products --------------------------------------------------------------------------------- */

static clattn_status enqueue_multiply(const struct step *step, const struct run *run)
{
    const struct matrix left = steps_matrix(run, step->place[FROM]), right = steps_matrix(run, step->place[MORE]);
    const struct matrix bias = steps_matrix(run, step->place[BIAS]), to = steps_matrix(run, step->place[TO]);
    const struct projection projection = {
        .params = { .left_offset = left.offset,
                    .right_offset = right.offset,
                    .bias_offset = bias.offset,
                    .result_offset = to.offset,
                    .left_row = left.stride,
                    .right_row = right.stride,
                    .result_row = to.stride,
                    .left_batch = step->count[4],
                    .right_batch = step->count[5],
                    .result_batch = step->count[6],
                    .rows = (int)step->count[0],
                    .columns = (int)step->count[1],
                    .depth = (int)step->count[2],
                    .has_bias = bias.buffer != NULL },
        .batch = step->count[3],
        .left = left.buffer,
        .right = right.buffer,
        .bias = bias.buffer,
        .result = to.buffer,
    };
    return projector_enqueue(step->of, &projection, run->chain);
}

void matrices_multiply(struct steps *steps, const struct projector *projector, struct place left, struct place right,
                       struct place bias, struct place to, int64_t rows, int64_t columns, int64_t depth)
{
    const struct step step = {
        enqueue_multiply, projector, { left, to, right, bias }, { rows, columns, depth, 1 }, 0, 0, NULL
    };
    steps_need(steps, to, rows, to.stride);
    steps_add(steps, &step);
}

void matrices_multiply_batch(struct steps *steps, const struct projector *projector, struct place left,
                             struct place right, struct place to, int64_t rows, int64_t columns, int64_t depth,
                             struct product_batch batch)
{
    const struct step step = { .enqueue = enqueue_multiply,
                               .of = projector,
                               .place = { left, to, right },
                               .count = { rows, columns, depth, batch.count, batch.left, batch.right, batch.to } };
    steps_need(steps, to, batch.count, batch.to);
    steps_add(steps, &step);
}

/* What is to be found of rows or columns of a matrix. */
static clattn_layer_matrix params_of(struct matrix from, struct matrix to, const struct step *step)
{
    const clattn_layer_matrix params = { .from_offset = from.offset,
                                         .to_offset = to.offset,
                                         .from_row = from.stride,
                                         .rows = (int)step->count[0],
                                         .columns = (int)step->count[1] };
    return params;
}

static clattn_status enqueue_mark_rows(const struct step *step, const struct run *run)
{
    const struct matrices *matrices = step->of;
    const struct matrix from = steps_matrix(run, step->place[FROM]), to = steps_matrix(run, step->place[TO]);
    const clattn_layer_matrix params = params_of(from, to, step);
    return launch_each(matrices->mark_rows, &params, from, to, step->count[0], LAYER_MATRIX_TILE, matrices->items,
                       run->chain);
}

void matrices_weight_gradient(struct steps *steps, const struct matrices *matrices, struct place left,
                              struct place right, const struct matrix_scratch *scratch, int64_t rows,
                              int64_t left_columns, int64_t right_columns)
{
    const struct place turned_left = { scratch->left.at, scratch->left.offset, rows };
    const struct place turned_right = { scratch->right.at, scratch->right.offset, rows };
    const struct place result = { scratch->result.at, scratch->result.offset, right_columns }, nowhere = { 0, 0, 0 };
    const struct step marks = {
        enqueue_mark_rows, matrices, { left, scratch->marks }, { rows, left_columns }, 0, 0, NULL
    };
    need_dense(steps, scratch->marks, rows);
    steps_add(steps, &marks);
    matrices_transpose(steps, matrices, 0, left, nowhere, turned_left, rows, left_columns);
    matrices_transpose(steps, matrices, 0, right, scratch->marks, turned_right, rows, right_columns);
    matrices_multiply(steps, &matrices->projector, turned_left, turned_right, nowhere, result, left_columns,
                      right_columns, rows);
}

/* ---- sums, results ---------------------------------------------------------------------------- */

static clattn_status enqueue_sum_columns(const struct step *step, const struct run *run)
{
    const struct matrices *matrices = step->of;
    const struct matrix from = steps_matrix(run, step->place[FROM]), to = steps_matrix(run, step->place[TO]);
    const clattn_layer_matrix params = params_of(from, to, step);
    const size_t local = matrices->column_items;
    return launch_each(matrices->sum_columns, &params, from, to, step->count[1], (int64_t)local, local, run->chain);
}

void matrices_sum_columns(struct steps *steps, const struct matrices *matrices, struct place from, struct place to,
                          int64_t rows, int64_t columns)
{
    const struct step step = { enqueue_sum_columns, matrices, { from, to }, { rows, columns }, 0, 0, NULL };
    need_dense(steps, to, columns);
    steps_add(steps, &step);
}

static clattn_status enqueue_give(const struct step *step, const struct run *run)
{
    const struct matrices *matrices = step->of;
    const struct matrix from = steps_matrix(run, step->place[FROM]), to = steps_matrix(run, step->place[TO]);
    const clattn_layer_matrix params = { .from_offset = from.offset,
                                         .to_offset = to.offset,
                                         .count = step->count[0],
                                         .accumulate = (int)step->count[1],
                                         .is_zero = step->flag };
    return launch_each(matrices->give, &params, from, to, step->count[0], LAYER_MATRIX_RUN, matrices->items,
                       run->chain);
}

void matrices_give(struct steps *steps, const struct matrices *matrices, struct place from, struct place to,
                   int64_t count, int accumulate, int is_zero)
{
    const struct step step = { enqueue_give, matrices, { from, to }, { count, accumulate }, is_zero, 0, NULL };
    steps_add(steps, &step);
}
