/* The workspace of split, for its kernels and for src/strategy/split.c: of each row and each split, P * V in whole
 * vectors of 16 columns; then, of all of them, the row maximum and the row sum. In floats. */
#ifndef CLATTN_SPLIT_LAYOUT_H
#define CLATTN_SPLIT_LAYOUT_H

#define SPLIT_COLUMNS(head_dim_v) (((head_dim_v) + 15) / 16 * 16)
#define SPLIT_STATE 2

#endif
