/* What run, grad and mha do with a finished call: write files, compare with what the input stored. */
#ifndef CLATTN_TOOLS_RESULTS_H
#define CLATTN_TOOLS_RESULTS_H

#include <cjson/cJSON.h>

#include "attention.h"

/* --output, --weights and --lse: names end in .npy or .safetensors, differ, and can be created. */
int results_check_names(const struct options *options, struct failure *failure);

/* Writes them. `y`: the result of a whole layer, or data NULL. */
int results_write(const struct options *options, const struct inputs *inputs, const struct attention *attention,
                  const struct tensor *y, struct failure *failure);

/* Compares out, weights, lse and y with the stored ones and tells of each (summary.h). Returns how many differ by more
 * than the tolerance. */
int results_compare(cJSON *document, const struct options *options, const struct inputs *inputs,
                    const struct attention *attention, const struct tensor *y);

/* Compares one gradient; data NULL where there is none to compare with. */
int results_compare_gradient(cJSON *document, const struct options *options, clattn_type type, const char *name,
                             const struct tensor *got, const struct tensor *stored);

/* Whether --tolerance, where it is given, is one. */
int results_check_tolerance(const struct options *options, struct failure *failure);

#endif
