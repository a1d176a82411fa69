/* Which tile a plan takes: the one that wisdom has for the class of its problem, where the strategy declares that
 * legal, else the tuning table's. The one way by which wisdom reaches a tile, for all strategies. */
#ifndef CLATTN_SRC_TILE_CHOICE_H
#define CLATTN_SRC_TILE_CHOICE_H

#include "plan/strategy.h"

/* For a strategy that has tiles. ask->explain gets a line that says where the tile comes from. */
struct wisdom_tile tile_choose(struct ask *ask, struct clattn_plan *plan);

#endif
