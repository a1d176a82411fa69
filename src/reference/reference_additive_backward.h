/* The gradients of additive attention in closed form, in float64, from the forward's inputs alone: the definition of
 * what is right. Nothing is rounded between the steps. */
#ifndef CLATTN_SRC_REFERENCE_ADDITIVE_BACKWARD_H
#define CLATTN_SRC_REFERENCE_ADDITIVE_BACKWARD_H

#include "operation/additive_backward.h"
#include "reference/gradient_detail.h"

/* Gradients before they are rounded. On failure there is nothing to free. */
clattn_status reference_additive_backward_detail(const struct additive_backward_problem *problem,
                                                 const struct operands *operands, struct gradient_detail *detail);

#endif
