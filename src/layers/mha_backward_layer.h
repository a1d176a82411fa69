/* The gradients of a multi-head layer on a device: the layer once more up to its heads' results, attention's gradients,
 * and products around them. */
#ifndef CLATTN_SRC_MHA_BACKWARD_LAYER_H
#define CLATTN_SRC_MHA_BACKWARD_LAYER_H

#include "layers/layer.h"
#include "operation/mha_backward.h"

/* What parts [first_part, end_part) are made of: x, or the context. */
struct mha_source {
    int input, gradient; /* numbers of the tensors */
    uint32_t bit;        /* CLATTN_MHA_GRADIENT_* */
    int first_part, end_part;
    int64_t rows, depth, columns; /* of the input; of its parts side by side */
    struct place place;           /* of the input, in the type that is computed in */
};

/* Query, key or value. */
struct mha_part {
    int weight, bias, dweight, dbias; /* numbers of the tensors */
    uint32_t weight_bit, bias_bit;    /* CLATTN_MHA_GRADIENT_* */
    int has_bias;
    int64_t first_row, dim; /* of the weight's rows; packed weights have three parts */
    int64_t at;             /* element of the sections of projections and of their gradients */
    const struct mha_source *source;
};

struct clattn_mha_backward {
    struct layer layer;
    const struct mha_backward_problem *problem; /* the layer's */
    struct matrices matrices;
    int attends, differentiates; /* whether some gradient needs the attention, its gradients */
    struct mha_source sources[2];
    struct mha_part parts[MHA_PARTS];
    int n_sources;
    struct place dy; /* in the type that is computed in */
};

extern const struct layer_kind layer_mha_backward;

#endif
