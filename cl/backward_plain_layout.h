/* What work-items of the plain gradients compute; C and OpenCL C both include this. */
#ifndef CLATTN_BACKWARD_PLAIN_LAYOUT_H
#define CLATTN_BACKWARD_PLAIN_LAYOUT_H

#define BACKWARD_COLUMNS 16 /* of one row's gradient */
#define BACKWARD_BLOCK 64   /* rows or keys that are added before they join the others: near sqrt(n) in rounding */

/* In the workspace, for row i of a plane: its lse (+inf: it adds nothing), then its D. */
#define ROW_TERMS 2
/* Behind them, for each block of rows of a plane, or each row: what it adds to dslopes, then to dscale. */
#define BLOCK_SUMS 2

/* Which sums a launch of head_sums makes. */
#define SUMS_SLOPES 0
#define SUMS_SCALE 1
#define SUMS_SINKS 2
#define SUMS_OF_ROWS 4 /* added to it: sums are of each row, not of each block of rows */

#endif
