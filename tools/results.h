/* What `clattn run` does with a finished call: writes files, compares with what the input stored.
 * Used by cmd_run.c. */
#ifndef CLATTN_TOOLS_RESULTS_H
#define CLATTN_TOOLS_RESULTS_H

#include "attention.h"

/* --output, --weights and --lse: names end in .npy or .safetensors, differ, and can be created. */
int results_check_names(const struct options *options, struct failure *failure);

/* Writes them. `y`: the result of a whole layer, or data NULL. */
int results_write(const struct options *options, const struct inputs *inputs, const struct attention *attention,
                  const struct tensor *y, struct failure *failure);

/* Compares out, weights, lse and y with the stored ones and prints a line each. Returns how many
 * differ by more than the tolerance. */
int results_compare(const struct options *options, const struct inputs *inputs, const struct attention *attention,
                    const struct tensor *y);

/* Prints "label     name": of a file, whose name may hold anything. */
void results_print_name(const char *label, const char *name);

/* Prints "1.2 ms what", "1.2 s what" from a second on. */
void results_print_duration(double seconds, const char *what);

/* Whether --tolerance, where it is given, is one. */
int results_check_tolerance(const struct options *options, struct failure *failure);

#endif
