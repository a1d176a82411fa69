/* A whole multi-head attention layer, as a model's file has it: x [..., tokens, features] and
 * projections wq, wk, wv, wo [out, in] with biases bq, bk, bv, bo (y = x W^T + b). The projections
 * are computed here, on the CPU in float64; the attention between them is clattn's. */
#ifndef CLATTN_TOOLS_MULTIHEAD_H
#define CLATTN_TOOLS_MULTIHEAD_H

#include "inputs.h"

/* Whether the inputs are such a layer instead of query, key and value. */
int multihead_given(const struct inputs *inputs);

/* Makes query, key and value [..., heads, tokens, dim] of x. heads: --heads, else as many as the
 * stored weights have. */
int multihead_project(const struct options *options, struct inputs *inputs, struct failure *failure);

/* y of attention's out, where the inputs have wo; the caller frees it. */
int multihead_merge(const struct inputs *inputs, const struct tensor *out, struct tensor *y, struct failure *failure);

#endif
