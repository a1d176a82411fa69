/* Matrices of a layer as steps of its plan: products of any two by the projector, whose sums run along rows, after
 * copies that turn them round; sums of columns; and the way into the caller's arrays. All but what a caller gives is in
 * the type that is computed in, in sections of the workspace. */
#ifndef CLATTN_SRC_MATRICES_H
#define CLATTN_SRC_MATRICES_H

#include "layers/projector.h"
#include "plan/steps.h"

struct matrices {
    struct projector projector;
    struct kernel *copy, *transpose_given; /* out of the caller's type */
    struct kernel *transpose, *mark_rows, *sum_columns, *give;
    size_t items, column_items; /* of a work-group; of one that sums columns, one each, on a CPU as lanes */
};

/* `given`: the type of what the caller gives; `gradient`: of what it gets; `real`: what is computed in. `work` as for
 * projector_init. */
clattn_status matrices_init(struct matrices *matrices, clattn_context *context, clattn_type given, clattn_type real,
                            clattn_type gradient, clattn_projection wanted, double work, struct text *explain);

/* Each records steps, which compute nothing where the result has no element. `to` [count], dense. */
void matrices_copy(struct steps *steps, const struct matrices *matrices, struct place from, struct place to,
                   int64_t count);

/* to [columns][rows] = from [rows][columns]^T. is_given: of the caller's type. `kept`: marks of the rows, or nowhere:
 * all are kept. */
void matrices_transpose(struct steps *steps, const struct matrices *matrices, int is_given, struct place from,
                        struct place kept, struct place to, int64_t rows, int64_t columns);

/* to [rows][columns] = left [rows][depth] right [columns][depth]^T + bias, which may be nowhere */
void matrices_multiply(struct steps *steps, const struct projector *projector, struct place left, struct place right,
                       struct place bias, struct place to, int64_t rows, int64_t columns, int64_t depth);

/* As many products, in elements from one matrix to the next. */
struct product_batch {
    int64_t count, left, right, to;
};
void matrices_multiply_batch(struct steps *steps, const struct projector *projector, struct place left,
                             struct place right, struct place to, int64_t rows, int64_t columns, int64_t depth,
                             struct product_batch batch);

/* Where matrices_weight_gradient works: room for `left` and `right` turned round, a number a row, the result. */
struct matrix_scratch {
    struct place left, right, marks, result;
};

/* gradient [left_columns][right_columns] = left [rows][left_columns]^T right [rows][right_columns], over the rows of
 * `left` that are not 0; into scratch->result. */
void matrices_weight_gradient(struct steps *steps, const struct matrices *matrices, struct place left,
                              struct place right, const struct matrix_scratch *scratch, int64_t rows,
                              int64_t left_columns, int64_t right_columns);

void matrices_sum_columns(struct steps *steps, const struct matrices *matrices, struct place from, struct place to,
                          int64_t rows, int64_t columns);

/* Into the caller's array. is_zero: `from` was not computed, there were no rows. */
void matrices_give(struct steps *steps, const struct matrices *matrices, struct place from, struct place to,
                   int64_t count, int accumulate, int is_zero);

#endif
