/* What kernels of layers' gradients are told of one matrix; C and OpenCL C both include this. Places count elements of
 * their own type; rows lie next to each other unless from_row or to_row says otherwise. */
#ifndef CLATTN_LAYER_MATRIX_PARAMS_H
#define CLATTN_LAYER_MATRIX_PARAMS_H

#include "forward/forward_params.h"

#define LAYER_MATRIX_TILE 16  /* rows and columns that a work-group transposes, or columns that it sums */
#define LAYER_MATRIX_RUN 4096 /* elements that a work-group copies */

typedef struct clattn_layer_matrix {
    clattn_i64 from_offset, to_offset, kept_offset;
    clattn_i64 from_row, to_row; /* elements from a row to the next */
    clattn_i64 count;            /* of what is copied */
    int rows, columns;
    int has_kept;   /* transpose: only rows that are marked; the others are 0 */
    int accumulate; /* give: added to what is there */
    int is_zero;    /* give: nothing was computed, the gradient is 0 */
    int padding;
} clattn_layer_matrix;

#endif
