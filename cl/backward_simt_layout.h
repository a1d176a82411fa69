/* What a launch of backward_simt.cl computes, for the kernels and for src/strategy/backward_simt.c. */
#ifndef CLATTN_BACKWARD_SIMT_LAYOUT_H
#define CLATTN_BACKWARD_SIMT_LAYOUT_H

/* Tiles and planes of the launch; a plane is a head of a batch entry, of queries or of keys and values. */
typedef struct clattn_simt_part {
    int first_tile, tiles;
    int first_plane;
    int wants;             /* SIMT_WANTS_*: gradients of keys that are asked for */
    int dvalue_accumulate; /* what is there is added to */
} clattn_simt_part;

#define SIMT_WANTS_DKEY 1
#define SIMT_WANTS_DVALUE 2

#endif
