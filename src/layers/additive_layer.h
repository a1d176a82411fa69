/* Additive attention on a device: the scores of all pairs, and any strategy's attention with them as its bias. */
#ifndef CLATTN_SRC_ADDITIVE_LAYER_H
#define CLATTN_SRC_ADDITIVE_LAYER_H

#include "layers/additive_scores.h"

struct clattn_additive {
    struct layer layer;
    const struct additive_problem *problem; /* the layer's */
    struct projector projector;
    struct additive_scores scores;
};

extern const struct layer_kind layer_additive;

#endif
