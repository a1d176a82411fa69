/* The part of the score matrix that is in the workspace, handed to every kernel of the staged strategy by
 * value; C and OpenCL C both include this.
 *
 *     planes     [first_plane, first_plane + planes)   plane = b * query_heads + h
 *     rows       [first_row, first_row + rows)         of each plane
 *     columns    all keys of the call
 *
 * Element (plane, i, j) is scores[(plane - first_plane) * plane_stride + (i - first_row) * row_stride + j].
 * row_stride is a multiple of STAGED_ROW_ALIGNMENT, so that vectors may run past the last key into the
 * row's own padding, which nothing reads as a score. */
#ifndef CLATTN_STAGED_PARAMS_H
#define CLATTN_STAGED_PARAMS_H

#include "forward/forward_params.h"

#define STAGED_ROW_ALIGNMENT 16

typedef struct staged_chunk {
    clattn_i64 plane_stride, row_stride;
    int first_plane, planes;
    int first_row, rows;
    int has_logits; /* scale_mask ran: hidden keys are marked in scores, else only bounds hide them */
    int padding;
} staged_chunk;

#endif
