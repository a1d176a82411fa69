/* What a launch of backward_simt.cl or backward_mma.cl computes, whose work-groups own a tile of rows, or of keys, and
 * its gradients; for the kernels and for src/strategy/backward_owners.c. */
#ifndef CLATTN_BACKWARD_OWNER_LAYOUT_H
#define CLATTN_BACKWARD_OWNER_LAYOUT_H

#include "backward/backward_params.h"

/* Rows or keys of a tile of backward_mma.cl, which leaves those to backward_simt.cl where numbers are not finite: the
 * tiles of that divide it. */
#define REDO_ROWS 64

/* Tiles and planes of the launch; a plane is a head of a batch entry, of queries or of keys and values. */
typedef struct clattn_owner_part {
    clattn_i64 redo_at;    /* in the workspace, of redo_blocks: for each, two numbers, of dquery or dkey, and of dvalue:
                            * whether it is left to do */
    int first_tile, tiles;
    int first_plane;
    int wants;             /* OWNER_WANTS_*: gradients that are asked for */
    float rests_from;      /* of row_rests: rows whose |lse| is beyond it may have a rest (backward/lse_rest.clh) */
    int redo_blocks;       /* of REDO_ROWS rows or keys of a plane; 0: nothing is left to do, or all */
    clattn_place dvalue;
} clattn_owner_part;

#define OWNER_WANTS_FIRST 1 /* dquery or dkey */
#define OWNER_WANTS_DVALUE 2
#define OWNER_WANTS_BOTH (OWNER_WANTS_FIRST | OWNER_WANTS_DVALUE)

/* Where the numbers of a plane's block are. */
#define REDO_AT(part, plane, first_row)                                                                \
    ((part)->redo_at + 2 * ((clattn_i64)(plane) * (part)->redo_blocks + (first_row) / REDO_ROWS))

#endif
