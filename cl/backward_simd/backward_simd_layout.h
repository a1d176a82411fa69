/* What backward_simd.cl is made of, for the kernels and for src/strategy/backward_simd.c. */
#ifndef CLATTN_BACKWARD_SIMD_LAYOUT_H
#define CLATTN_BACKWARD_SIMD_LAYOUT_H

#include "forward/forward_params.h"

#define SPLIT_KEYS 512      /* of a rectangle: a property of the kernel, so that no bit hangs on batch or device */
#define RECTANGLE_ROWS 4096 /* packed rows; a multiple of every block of rows */

/* A launch's part of the work, and where in the workspace its sums are, in elements. */
typedef struct clattn_rectangles {
    clattn_i64 dquery_at, dkey_at, dvalue_at, row_sums_at; /* of the launch's first group */
    int first_group, groups;                  /* key/value heads: b * kv_heads + g */
    int first_row, rows;                      /* packed rows [first_row, first_row + rows) of each group */
} clattn_rectangles;

/* Rows of which the rests of lse are found: those whose |lse| is beyond rests_from. */
typedef struct clattn_rests {
    float rests_from;
} clattn_rests;

/* What a launch adds up of one gradient. */
typedef struct clattn_sums {
    clattn_i64 sums_at, total_at; /* total: of the rows before these, in memory as the sums are, and as large its rest;
                                   * of SUM_ROWS: of all planes' rows */
    int first_group, groups, first_row, rows;
    int which;     /* SUM_* */
    int continues; /* the total has a part already; else it begins here */
} clattn_sums;

#define SUM_DQUERY 0
#define SUM_DKEY 1
#define SUM_DVALUE 2
#define SUM_ROWS 3    /* BLOCK_SUMS of a row: its parts of dslopes and dscale */
#define SUM_GOES_ON 4 /* added to `which`: there are rows to come; the total is kept, and no gradient written */

/* dbias where axes are summed: what a block of its rows and keys is the sum of is cut into parts, of whole units: a
 * head's rows, UNIT_ROWS of them where rows are summed, with keys, SPLIT_KEYS of them where keys are. As many parts as
 * make BIAS_GROUPS work-groups of a plane of dbias, by that plane's shape and what it is the sum of alone. Where
 * neither is summed a part's sums are as large as a unit: it has BIAS_UNITS_LEAST at least. */
#define UNIT_ROWS 512 /* a multiple of every block of rows */
#define BIAS_GROUPS 64
#define BIAS_UNITS_LEAST 8

/* A launch's blocks and parts. */
typedef struct clattn_bias_sums {
    clattn_i64 sums_at, total_at; /* of the launch's first block: its parts; of its one block: the parts before
                                   * these, and as large their rest */
    clattn_i64 first_block;       /* [plane][block of rows or 1][block of keys or 1] */
    int parts;                    /* of each block, in all; 1: written as it is */
    int first_part, part_count;   /* of the launch */
    int which;                    /* SUM_GOES_ON, or 0 */
} clattn_bias_sums;

/* What kernels are built for (-D WANTS): bits 1 << SUM_*, and these. */
#define WANTED_SLOPES (1 << 4)
#define WANTED_SCALE (1 << 5)
#define WANTED_BIAS (1 << 6)

#endif
