/* The values of one merge; C and OpenCL C both include this. Rows of places: the partials, then what they become. */
#ifndef CLATTN_MERGE_PARAMS_H
#define CLATTN_MERGE_PARAMS_H

#include "forward_params.h"

#define MERGE_AT_ONCE 8 /* CLATTN_MERGE_AT_ONCE */
#define MERGE_PLACES (MERGE_AT_ONCE + 1)
#define MERGED MERGE_AT_ONCE /* the place of the result */

typedef struct clattn_merge_params {
    clattn_i64 out_stride[MERGE_PLACES][4], lse_stride[MERGE_PLACES][3];
    clattn_i64 out_offset[MERGE_PLACES], lse_offset[MERGE_PLACES];
    int count; /* partials */
    int heads, rows, columns;
} clattn_merge_params;

#endif
