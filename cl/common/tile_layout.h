/* Rows of the tiles of common/tile_gemm.clh in local memory, in elements of REAL; C and OpenCL C both include this.
 * Padded against bank conflicts, by what keeps vectors aligned; a work-group of one work-item shares nothing. */
#ifndef CLATTN_TILE_LAYOUT_H
#define CLATTN_TILE_LAYOUT_H

#define TILE_RIGHT_PITCH(group_items, tile_n, vec) ((tile_n) + ((group_items) > 1 ? (vec) : 0))
#define TILE_LEFT_PITCH(tile_k) ((tile_k) + 1)

#endif
