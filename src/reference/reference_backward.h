/* The gradients of attention in closed form, in long double on the CPU: the definition of what is right. */
#ifndef CLATTN_SRC_REFERENCE_BACKWARD_H
#define CLATTN_SRC_REFERENCE_BACKWARD_H

#include "operation/backward.h"
#include "reference/gradient_sums.h"

/* Gradients before they are rounded and added to what is there, with what the error bound needs. */
struct backward_detail {
    int own_forward; /* out and lse are computed here, not the call's: exact derivatives of the forward */
    struct gradient_sums sums[BACKWARD_TENSOR_COUNT]; /* by the gradients' numbers */
};
/* On failure there is nothing to free. */
clattn_status reference_backward_detail(const struct backward_problem *problem, const struct call *call,
                                        struct backward_detail *detail);
void backward_detail_free(struct backward_detail *detail);

#endif
