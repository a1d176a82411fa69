/* How dot products of very many columns are summed; C and OpenCL C both include this. */
#ifndef CLATTN_COLUMN_RUNS_H
#define CLATTN_COLUMN_RUNS_H

/* Columns that are summed one after the other; where there are more than two such runs, sums of these are added, in
 * their order. All kernels of gradients that need a dot product to the same bits do so. */
#define COLUMN_RUN 512
#define HAS_COLUMN_RUNS(columns) ((columns) > 2 * COLUMN_RUN)

#endif
