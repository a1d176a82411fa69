/* What run tells of weights: the sum that each key gets, the largest logit of each head (clattn_key_sums.h). */
#ifndef CLATTN_TOOLS_RUN_KEY_SUMS_H
#define CLATTN_TOOLS_RUN_KEY_SUMS_H

#include <cjson/cJSON.h>

#include "attention.h"

/* --key-sum-rows needs --key-sums, which needs lse of the forward call. */
int key_sums_check_options(const struct options *options, struct failure *failure);

/* Makes attention->key_sums and max_logit, of those that were asked for, after the forward call. */
int key_sums_compute(const struct options *options, clattn_context *context, struct attention *attention,
                     struct failure *failure);

/* With --check: compares them with the float64 reference, by the tolerance of outputs, and tells; a problem too large
 * for `budget` multiplications is told as not checked. -1: they differ, or there is no reference. */
int key_sums_compare(cJSON *document, const struct options *options, const struct attention *attention, double budget,
                     struct failure *failure);

#endif
