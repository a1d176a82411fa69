/* The gradients of additive attention on a device: scores and softmax once more, in float32; dvalue by any strategy's
 * gradients of attention; those of the scores out of a product, dout times values; sums over pairs of these, and
 * products around them. (The gradient of a bias is dS too, but its kernel forms each pair's product by itself: most of
 * a call's time.) */
#ifndef CLATTN_SRC_ADDITIVE_BACKWARD_LAYER_H
#define CLATTN_SRC_ADDITIVE_BACKWARD_LAYER_H

#include "layers/additive_scores.h"
#include "operation/additive_backward.h"

/* Queries, or keys: what has hidden units. */
struct additive_side {
    int input, weight, dinput, dweight;         /* numbers of the tensors */
    uint32_t input_bit, weight_bit;             /* CLATTN_ADDITIVE_GRADIENT_* */
    int input_copy, weight_copy, units, dunits; /* sections */
    int64_t rows, dim;                          /* rows: of all batch entries */
    int needs_dunits;
    struct place wide_input, wide_weight; /* in float32 */
};

enum { ADDITIVE_QUERY_SIDE, ADDITIVE_KEY_SIDE, ADDITIVE_SIDES };

struct clattn_additive_backward {
    struct layer layer;
    const struct additive_backward_problem *problem; /* the layer's */
    struct matrices matrices;
    struct additive_scores scores;
    struct kernel *row_terms, *ds, *sums;
    size_t ds_items, sum_items; /* work-items of a work-group, along keys or rows, and hidden units */
    struct additive_side sides[ADDITIVE_SIDES];
    struct place value, dout;        /* in float32 */
    int64_t hidden_stride, partials; /* rows of the latter; 0: dscore is not asked for */
};

extern const struct layer_kind layer_additive_backward;

#endif
