/* Tiles of cl/simd/fused_simd.cl: what the tuning table gives a problem, what wisdom may put in its place. */
#ifndef CLATTN_SRC_FUSED_SIMD_TILE_H
#define CLATTN_SRC_FUSED_SIMD_TILE_H

#include "strategy/fused_simd.h"

/* What the kernel is built with. */
struct simd_choice {
    enum simd_product product;
    int keys; /* a block */
    struct wisdom_tile tile;
};

/* ask->explain gets a line on the tile. */
struct simd_choice simd_choose(struct ask *ask, struct clattn_plan *plan, enum simd_product product);

/* Whether work-groups bring keys, or values, of a type into another form. */
int simd_converts(const clattn_problem *p, clattn_type type, enum simd_product product);

#endif
