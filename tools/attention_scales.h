/* What lies beside the codes of keys and values: scales, zero points, the scale of a whole tensor. */
#ifndef CLATTN_TOOLS_ATTENTION_SCALES_H
#define CLATTN_TOOLS_ATTENTION_SCALES_H

#include "attention.h"
#include "inputs.h"
#include "options.h"

/* Checks them against the stored types, which must be known; sets the problem's features and groups, and the host's
 * tensors. */
int attention_prepare_scales(const struct options *options, struct inputs *inputs, struct attention *attention,
                             struct failure *failure);

#endif
