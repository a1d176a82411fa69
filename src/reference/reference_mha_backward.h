/* The gradients of the multi-head layer in closed form, in float64 at least, from the layer's inputs alone: the
 * definition of what is right. Nothing is rounded between the steps. */
#ifndef CLATTN_SRC_REFERENCE_MHA_BACKWARD_H
#define CLATTN_SRC_REFERENCE_MHA_BACKWARD_H

#include "operation/mha_backward.h"
#include "reference/gradient_detail.h"

/* Gradients before they are rounded: those that a part of attention is behind have the units of
 * docs/numbers.md, multiplied as values are. On failure there is nothing to free. */
clattn_status reference_mha_backward_detail(const struct mha_backward_problem *problem, const struct operands *operands,
                                            struct gradient_detail *detail);

#endif
