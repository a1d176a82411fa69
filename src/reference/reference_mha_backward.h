/* The gradients of the multi-head layer in closed form, in float64 at least, from the layer's inputs alone: the
 * definition of what is right. Nothing is rounded between the steps. */
#ifndef CLATTN_SRC_REFERENCE_MHA_BACKWARD_H
#define CLATTN_SRC_REFERENCE_MHA_BACKWARD_H

#include "operation/mha_backward.h"

/* Computes all gradients of a validated host call. */
clattn_status reference_mha_backward(const struct mha_backward_problem *problem, const struct operands *operands);

/* The same before it is rounded, and before what is accumulated, with what errors are counted in (in units of float32's
 * rounding): gradients that a part of attention is behind have those of docs/numbers.md, multiplied as values are. */
struct mha_backward_detail {
    double *value[MHA_BACKWARD_TENSOR_COUNT], *unit[MHA_BACKWARD_TENSOR_COUNT]; /* NULL: not asked for, or empty */
};
/* On failure there is nothing to free. */
clattn_status reference_mha_backward_detail(const struct mha_backward_problem *problem, const struct operands *operands,
                                            struct mha_backward_detail *detail);
void mha_backward_detail_free(struct mha_backward_detail *detail);

#endif
