/* The values of one projection; C and OpenCL C both include this.
 *
 *     result[b][m][n] = sum_k left[b][m][k] * right[b][n][k] + bias[n]
 *
 * Columns lie next to each other. Called with x as left and a parameter [out, in] as right, or the other way
 * round where the transposed result is wanted. */
#ifndef CLATTN_PROJECT_PARAMS_H
#define CLATTN_PROJECT_PARAMS_H

#include "forward/forward_params.h"

/* The tile of results that project_lanes.cl has in registers: REG_M * REG_N + REG_M + 1 vectors, of 32 registers. */
#define PROJECT_LANES_ROWS 3
#define PROJECT_LANES_COLUMNS 8 /* sum_of_8 */

typedef struct clattn_project {
    clattn_i64 left_offset, right_offset, bias_offset, result_offset;
    clattn_i64 left_row, right_row, result_row;       /* elements from a row to the next */
    clattn_i64 left_batch, right_batch, result_batch; /* 0: one for all */
    int rows, columns, depth, has_bias;
    int group_rows, group_columns; /* project_lanes.cl: what one work-group makes; multiples of its tile */
} clattn_project;

#endif
