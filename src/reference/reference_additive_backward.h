/* The gradients of additive attention in closed form, in float64, from the forward's inputs alone: the definition of
 * what is right. Nothing is rounded between the steps. */
#ifndef CLATTN_SRC_REFERENCE_ADDITIVE_BACKWARD_H
#define CLATTN_SRC_REFERENCE_ADDITIVE_BACKWARD_H

#include "operation/additive_backward.h"

/* Computes all gradients of a validated host call. */
clattn_status reference_additive_backward(const struct additive_backward_problem *problem,
                                          const struct operands *operands);

/* The same before it is rounded, and before what is accumulated, with what errors are counted in (in units of float32's
 * rounding). */
struct additive_backward_detail {
    double *value[ADDITIVE_BACKWARD_TENSOR_COUNT]; /* NULL: not asked for, or empty */
    double *unit[ADDITIVE_BACKWARD_TENSOR_COUNT];
};
/* On failure there is nothing to free. */
clattn_status reference_additive_backward_detail(const struct additive_backward_problem *problem,
                                                 const struct operands *operands,
                                                 struct additive_backward_detail *detail);
void additive_backward_detail_free(struct additive_backward_detail *detail);

#endif
