/* What run, grad and mha do with a finished call: write files, compare with what the input stored. */
#ifndef CLATTN_TOOLS_RESULTS_H
#define CLATTN_TOOLS_RESULTS_H

#include <cjson/cJSON.h>

#include "attention.h"

/* Options that name an output's file: names end in .npy or .safetensors, differ, and can be created. */
int results_check_names(const struct options *options, struct failure *failure);

/* Tells their names. */
void results_tell_files(cJSON *document, const struct options *options);

/* A line with the range of what was computed, for people: the result is gone where no file keeps it. */
void results_tell_range(const struct options *options, const struct tensor *result);

/* Writes them. `y`: the result of a whole layer, or data NULL. */
int results_write(const struct options *options, const struct inputs *inputs, const struct attention *attention,
                  const struct tensor *y, struct failure *failure);

/* Compares out, weights, lse, sums of weights, largest logits and y with the stored ones and tells of each (summary.h).
 * Returns how many differ by more than the tolerance. */
int results_compare(cJSON *document, const struct options *options, const struct inputs *inputs,
                    const struct attention *attention, const struct tensor *y);

/* Sums of weights and largest logits beside those of the reference, by the same tolerance; data NULL: not asked for. */
int results_compare_sums(cJSON *document, const struct options *options, const struct attention *attention,
                         const struct tensor *sums, const struct tensor *max_logit);

/* Compares one gradient; data NULL where there is none to compare with. */
int results_compare_gradient(cJSON *document, const struct options *options, clattn_type type, const char *name,
                             const struct tensor *got, const struct tensor *stored);

/* Whether --tolerance, where it is given, is one. */
int results_check_tolerance(const struct options *options, struct failure *failure);

#endif
