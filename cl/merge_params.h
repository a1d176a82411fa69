/* The values of one clattn_merge call; C and OpenCL C both include this. Index 0: a, 1: b, 2: merged. */
#ifndef CLATTN_MERGE_PARAMS_H
#define CLATTN_MERGE_PARAMS_H

#include "forward_params.h"

typedef struct clattn_merge_params {
    clattn_i64 out_offset[3], out_stride[3][4];
    clattn_i64 lse_offset[3], lse_stride[3][4];
    int heads, rows, columns, padding;
} clattn_merge_params;

#endif
