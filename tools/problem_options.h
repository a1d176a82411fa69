/* Options that describe a problem, for all commands that take them, read into a clattn_problem. */
#ifndef CLATTN_TOOLS_PROBLEM_OPTIONS_H
#define CLATTN_TOOLS_PROBLEM_OPTIONS_H

#include "clattn.h"
#include "failure.h"
#include "options.h"

/* --causal and --align (with *offsets, an int64 tensor that the caller frees, where they are
 * numbers), --window, --always, --softcap, --scale, --strategy, --matmul, --tf32, --rounded-weights. An option that a
 * command does not take is never given. "offsets" as an alignment leaves *offsets empty: the input file has them. */
int problem_options_read(const struct options *options, clattn_problem *problem, clattn_call *call,
                         struct tensor *offsets, struct failure *failure);

/* Whether --align is there where a window or slopes need it, and only there. Called when all is read. */
int problem_alignment_check(const struct options *options, const clattn_problem *problem, struct failure *failure);

/* The type that option `id`, whose words are types, names. */
int problem_type_read(const struct options *options, enum option_id id, clattn_type *type, struct failure *failure);

/* NULL where none was asked for. */
int problem_strategy_read(const struct options *options, const char **strategy, struct failure *failure);

/* scores, softcap, logits or softmax of option `id`. */
int problem_weights_read(const struct options *options, enum option_id id, clattn_weights *weights,
                         struct failure *failure);

/* Rows of keys that are kept of a sequence: all, or those of a ring. */
int64_t problem_kept_rows(const clattn_problem *problem);

/* All of a problem that has no data: --shape, --dtype, masks and features by kind. */
int problem_without_data_read(const struct options *options, clattn_problem *problem, struct failure *failure);

#endif
