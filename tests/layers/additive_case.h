/* Random problems of additive attention with their arrays in host memory, for the layer and for its gradients. */
#ifndef CLATTN_TESTS_LAYERS_ADDITIVE_CASE_H
#define CLATTN_TESTS_LAYERS_ADDITIVE_CASE_H

#include "clattn_additive.h"
#include "layer_test.h"

#define ADDITIVE_INPUTS 6 /* query, key, value, wq, wk, score */

struct additive_case {
    clattn_additive_problem problem;
    clattn_additive_host_arrays arrays;
    int64_t count[ADDITIVE_INPUTS];
    void *inputs[ADDITIVE_INPUTS];
    int64_t out_count, weights_count;
    uint8_t *mask;
    int32_t *lengths;
};

void additive_case_choose(struct additive_case *c, struct random *random);

/* Inputs, weights, masks; keys and values past the key lengths, which may be there, are NaN. out and weights are the
 * caller's. */
void additive_case_fill(struct additive_case *c, struct random *random);
void additive_case_free(struct additive_case *c);

void additive_case_describe(const clattn_additive_problem *problem, char *text, size_t bytes);

#endif
