/* The values of one merge; C and OpenCL C both include this. Rows of places: the partials, then what they become. */
#ifndef CLATTN_MERGE_PARAMS_H
#define CLATTN_MERGE_PARAMS_H

#include "forward/forward_params.h"

#define MERGE_AT_ONCE 8 /* CLATTN_MERGE_AT_ONCE */
#define MERGE_PLACES (MERGE_AT_ONCE + 1)
#define MERGED MERGE_AT_ONCE /* the place of the result */

/* What goes from turn to turn, of a row: the largest lse so far, or less by 1 at most; the sum of weights over it; and
 * of each column the sum of weighted outs. Sums have what rounding took away from them behind them. */
#define MERGE_TOP 0
#define MERGE_SUM 1
#define MERGE_SUM_REST 2
#define MERGE_COLUMN(column) (3 + 2 * (column))
#define MERGE_STATE(columns) MERGE_COLUMN((clattn_i64)(columns)) /* elements */

typedef struct clattn_merge_params {
    clattn_i64 out_stride[MERGE_PLACES][4], lse_stride[MERGE_PLACES][3];
    clattn_i64 out_offset[MERGE_PLACES], lse_offset[MERGE_PLACES];
    int count;             /* partials */
    int is_first, is_last; /* turn of the call */
    int heads, rows, columns;
} clattn_merge_params;

#endif
