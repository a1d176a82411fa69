/* What work-items of the plain gradients compute; C and OpenCL C both include this. */
#ifndef CLATTN_BACKWARD_PLAIN_LAYOUT_H
#define CLATTN_BACKWARD_PLAIN_LAYOUT_H

#define BACKWARD_COLUMNS 16 /* of one row's gradient */
#define BACKWARD_BLOCK 64   /* rows or keys that are added before they join the others: near sqrt(n) in rounding */

/* In the workspace, for row i of a plane: its lse (+inf: it adds nothing), its D, and what float32 did not hold of lse
 * (backward/lse_rest.clh). */
#define ROW_TERMS 3
#define TERM_LSE 0
#define TERM_D 1
#define TERM_REST 2

/* Rows whose |lse| is beyond this have rests, where gradients are kept in float32. */
#define LSE_RESTS_FROM 16.0f

/* A rest that is more than so much of |lse| is none: the caller's lse is that of other keys too. float64 computes lse
 * to far more than float32 holds of it; in float32 it has the errors of two kernels' logits as well. */
#define LSE_REST_MOST(real_bytes) ((real_bytes) == 8 ? 0x1p-23f : 0x1p-20f)
/* Behind them, for each block of rows of a plane, or each row: what it adds to dslopes, then to dscale. */
#define BLOCK_SUMS 2

/* Which sums a launch of head_sums makes. */
#define SUMS_SLOPES 0
#define SUMS_SCALE 1
#define SUMS_SINKS 2
#define SUMS_OF_ROWS 4 /* added to it: sums are of each row, not of each block of rows */

#endif
