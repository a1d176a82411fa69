/* A call of the gradients of additive attention, its arrays in host memory, and both ways to make it. */
#ifndef CLATTN_TESTS_LAYERS_ADDITIVE_GRADIENT_CASE_H
#define CLATTN_TESTS_LAYERS_ADDITIVE_GRADIENT_CASE_H

#include "additive_case.h"

#define GRADIENTS ADDITIVE_INPUTS
#define ALL_GRADIENTS ((1u << GRADIENTS) - 1)

struct additive_gradient_case {
    struct additive_case layer;
    clattn_additive_backward_problem problem;
    clattn_additive_host_gradients arrays;
    void *dout, *got[GRADIENTS], *before[GRADIENTS]; /* by the bits of clattn_additive_gradient */
};

clattn_type additive_gradient_type(const struct additive_gradient_case *c);

/* All gradients, of a problem that is to be set; strategy "plain". */
void additive_gradient_begin(struct additive_gradient_case *c);

/* Inputs, dout, and arrays for all gradients; those that are not added to are poison. */
void additive_gradient_fill(struct additive_gradient_case *c, struct random *random);
void additive_gradient_end(struct additive_gradient_case *c);

/* Into `got`, of the gradients that are asked for. */
clattn_status additive_gradient_run_host(const struct layer_test *test, struct additive_gradient_case *c);
clattn_status additive_gradient_run_enqueued(const struct layer_test *test, struct additive_gradient_case *c,
                                             int out_of_order);

#endif
