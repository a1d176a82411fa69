/* Whether gradients are right: their errors against the reference, as a share of the bound of docs/numbers.md. */
#ifndef CLATTN_TOOLS_CHECK_GRADIENTS_H
#define CLATTN_TOOLS_CHECK_GRADIENTS_H

#include "clattn_backward.h"
#include "failure.h"
#include "role_list.h"

struct gradient_check {
    int there;
    double largest_error, share; /* of the bound; <= 1 is right */
};

/* All elements, from the call's own out and lse. Gradients that were accumulated cannot be checked. It takes about a
 * second for 20 million products of an element of a query with one of a key. `plan`: what ran, which tells what it
 * rounds. `check` has GRADIENT_KINDS elements, and keeps the most of several calls. */
int check_gradients(const clattn_backward_problem *problem, const clattn_call *call, const clattn_host_tensors *tensors,
                    const clattn_host_gradients *gradients, const clattn_plan *plan, struct gradient_check *check,
                    struct failure *failure);

/* The largest share of all gradients. */
double check_gradients_share(const struct gradient_check *check);

#endif
