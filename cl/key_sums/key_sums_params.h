/* Where kernels of sums of weights put what they find, and how; C and OpenCL C both include this. */
#ifndef CLATTN_KEY_SUMS_PARAMS_H
#define CLATTN_KEY_SUMS_PARAMS_H

#include "forward/forward_params.h"

/* A call's: key_sums, max_logit, and the rows that are summed. */
typedef struct clattn_key_sums_places {
    clattn_i64 sums_offset, sums_stride[3]; /* of batch, head and key */
    clattn_i64 max_offset, max_stride[2];   /* of batch and head */
    int last_rows, unused;
} clattn_key_sums_places;

/* -D WANTS: the bits of clattn_key_sums_output. */
#define WANTED_SUMS 1
#define WANTED_MAX 2

#define KEY_SUMS_ROWS 64    /* rows whose weights are added before they join the others: docs/numbers.md */
#define KEY_SUMS_MAXIMA 256 /* that a work-item makes one of */

#endif
