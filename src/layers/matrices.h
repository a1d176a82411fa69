/* Matrices of a layer's gradients: products of any two by the projector, whose sums run along rows, after copies that
 * turn them round; sums of columns; and the way into the caller's arrays. All but what a caller gives is in the type
 * that is computed in, in the workspace. */
#ifndef CLATTN_SRC_MATRICES_H
#define CLATTN_SRC_MATRICES_H

#include "layers/projector.h"

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

/* Rows of `stride` elements from element `offset` on. */
struct matrix {
    cl_mem buffer;
    int64_t offset, stride;
};

/* Each is the chain's next commands, or none where the result has no element. `to` [count], dense. */
clattn_status matrices_copy(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t count,
                            struct chain *chain);

/* to [columns][rows] = from [rows][columns]^T. is_given: of the caller's type. `kept`: marks of the rows; NULL: all. */
clattn_status matrices_transpose(const struct matrices *matrices, int is_given, struct matrix from,
                                 const struct matrix *kept, struct matrix to, int64_t rows, int64_t columns,
                                 struct chain *chain);

/* to [rows][columns] = left [rows][depth] right [columns][depth]^T + bias, whose buffer may be NULL */
clattn_status matrices_multiply(const struct matrices *matrices, struct matrix left, struct matrix right,
                                struct matrix bias, struct matrix to, int64_t rows, int64_t columns, int64_t depth,
                                struct chain *chain);

/* Where matrices_weight_gradient works: room for `left` and `right` turned round, a number a row, the result. */
struct matrix_scratch {
    struct matrix left, right, marks, result;
};

/* gradient [left_columns][right_columns] = left [rows][left_columns]^T right [rows][right_columns], over the rows of
 * `left` that are not 0; into scratch->result. */
clattn_status matrices_weight_gradient(const struct matrices *matrices, struct matrix left, struct matrix right,
                                       const struct matrix_scratch *scratch, int64_t rows, int64_t left_columns,
                                       int64_t right_columns, struct chain *chain);

clattn_status matrices_sum_columns(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t rows,
                                   int64_t columns, struct chain *chain);

/* Into the caller's array. is_zero: `from` was not computed, there were no rows. */
clattn_status matrices_give(const struct matrices *matrices, struct matrix from, struct matrix to, int64_t count,
                            int accumulate, int is_zero, struct chain *chain);

#endif
