/* Launches of cl/layer_matrix.cl, and products made of them and of projections. */
#include "layers/matrices.h"

#include <stdio.h>

#include "cl/layer_matrix_params.h"

#define FILE_NAME "layer_matrix.cl"

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

static size_t groups_of(int64_t count, int64_t of_group)
{
    return (size_t)((count + of_group - 1) / of_group);
}

/* Kernels that go from one matrix to another: a work-group of `local` for each `of_group` of `count`. */
static clattn_status launch_each(struct kernel *kernel, const clattn_layer_matrix *params, struct matrix from,
                                 struct matrix to, int64_t count, int64_t of_group, size_t local, struct chain *chain)
{
    const size_t global = groups_of(count, of_group) * local;
    const struct launch_argument arguments[] = { ARGUMENT(*params), ARGUMENT(from.buffer), ARGUMENT(to.buffer) };
    return launch(chain, kernel, 1, &global, &local, 3, arguments);
}

clattn_status matrices_copy(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t count,
                            struct chain *chain)
{
    const clattn_layer_matrix params = { .from_offset = from.offset, .to_offset = to.offset, .count = count };
    return launch_each(matrices->copy, &params, from, to, count, LAYER_MATRIX_RUN, matrices->items, chain);
}

clattn_status matrices_transpose(const struct matrices *matrices, int is_given, struct matrix from,
                                 const struct matrix *kept, struct matrix to, int64_t rows, int64_t columns,
                                 struct chain *chain)
{
    const clattn_layer_matrix params = {
        .from_offset = from.offset,
        .to_offset = to.offset,
        .kept_offset = kept ? kept->offset : 0,
        .from_row = from.stride,
        .to_row = to.stride,
        .rows = (int)rows,
        .columns = (int)columns,
        .has_kept = kept != NULL,
    };
    const cl_mem marks = kept ? kept->buffer : NULL;
    const size_t local[2] = { matrices->items, 1 };
    const size_t global[2] = { groups_of(rows, LAYER_MATRIX_TILE) * local[0], groups_of(columns, LAYER_MATRIX_TILE) };
    const struct launch_argument arguments[] = { ARGUMENT(params), ARGUMENT(from.buffer), ARGUMENT(marks),
                                                 ARGUMENT(to.buffer) };
    return launch(chain, is_given ? matrices->transpose_given : matrices->transpose, 2, global, local, 4, arguments);
}

clattn_status matrices_multiply(const struct matrices *matrices, struct matrix left, struct matrix right,
                                struct matrix bias, struct matrix to, int64_t rows, int64_t columns, int64_t depth,
                                struct chain *chain)
{
    const struct projection projection = {
        .params = { .left_offset = left.offset,
                    .right_offset = right.offset,
                    .bias_offset = bias.offset,
                    .result_offset = to.offset,
                    .left_row = left.stride,
                    .right_row = right.stride,
                    .result_row = to.stride,
                    .rows = (int)rows,
                    .columns = (int)columns,
                    .depth = (int)depth,
                    .has_bias = bias.buffer != NULL },
        .batch = 1,
        .left = left.buffer,
        .right = right.buffer,
        .bias = bias.buffer,
        .result = to.buffer,
    };
    return projector_enqueue(&matrices->projector, &projection, chain);
}

/* What is to be found of rows or columns of a matrix. */
static clattn_layer_matrix params_of(struct matrix from, struct matrix to, int64_t rows, int64_t columns)
{
    const clattn_layer_matrix params = { .from_offset = from.offset,
                                         .to_offset = to.offset,
                                         .from_row = from.stride,
                                         .rows = (int)rows,
                                         .columns = (int)columns };
    return params;
}

static clattn_status mark_rows(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t rows,
                               int64_t columns, struct chain *chain)
{
    const clattn_layer_matrix params = params_of(from, to, rows, columns);
    return launch_each(matrices->mark_rows, &params, from, to, rows, LAYER_MATRIX_TILE, matrices->items, chain);
}

clattn_status matrices_weight_gradient(const struct matrices *matrices, struct matrix left, struct matrix right,
                                       const struct matrix_scratch *scratch, int64_t rows, int64_t left_columns,
                                       int64_t right_columns, struct chain *chain)
{
    const struct matrix turned_left = { scratch->left.buffer, scratch->left.offset, rows };
    const struct matrix turned_right = { scratch->right.buffer, scratch->right.offset, rows };
    const struct matrix result = { scratch->result.buffer, scratch->result.offset, right_columns };
    const struct matrix no_bias = { NULL, 0, 0 };
    clattn_status status = mark_rows(matrices, left, scratch->marks, rows, left_columns, chain);
    if (status == CLATTN_OK) {
        status = matrices_transpose(matrices, 0, left, NULL, turned_left, rows, left_columns, chain);
    }
    if (status == CLATTN_OK) {
        status = matrices_transpose(matrices, 0, right, &scratch->marks, turned_right, rows, right_columns, chain);
    }
    return status == CLATTN_OK ? matrices_multiply(matrices, turned_left, turned_right, no_bias, result, left_columns,
                                                   right_columns, rows, chain)
                               : status;
}

clattn_status matrices_sum_columns(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t rows,
                                   int64_t columns, struct chain *chain)
{
    const clattn_layer_matrix params = params_of(from, to, rows, columns);
    const size_t local = matrices->column_items;
    return launch_each(matrices->sum_columns, &params, from, to, columns, (int64_t)local, local, chain);
}

clattn_status matrices_give(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t count,
                            int accumulate, int is_zero, struct chain *chain)
{
    const clattn_layer_matrix params = {
        .from_offset = from.offset, .to_offset = to.offset, .count = count, .accumulate = accumulate, .is_zero = is_zero
    };
    return launch_each(matrices->give, &params, from, to, count, LAYER_MATRIX_RUN, matrices->items, chain);
}
