/* A whole multi-head layer from a file's tensors: the problem, its arrays, room for y and the weights.
 * Checks every shape against the others. */
#ifndef CLATTN_TOOLS_LAYER_RUN_H
#define CLATTN_TOOLS_LAYER_RUN_H

#include "attention.h"
#include "clattn_layers.h"
#include "inputs.h"
#include "options.h"

struct layer_run {
    clattn_mha_problem problem;
    clattn_mha_host_arrays arrays; /* points into the inputs and the tensors below */
    struct tensor y, weights;
    struct tensor packed_weights, packed_biases; /* of query, key, value, where one multiply can make all */
};

/* Converts the inputs in place to one type: that of x, or --dtype. Heads: --heads, else as many as the stored
 * weights have. The inputs must outlive it; the caller ends with layer_run_free, after failures too. */
int layer_run_prepare(const struct options *options, struct inputs *inputs, clattn_mha_weights weights,
                      struct layer_run *run, struct failure *failure);
void layer_run_free(struct layer_run *run);

/* What drawing, writing and comparing take: an attention with these weights. Owns nothing. */
void layer_run_as_attention(const struct layer_run *run, struct attention *attention);

#endif
