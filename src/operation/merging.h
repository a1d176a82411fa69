/* Merging partial attentions as an operation: its tensors and its problem, validated. No device needed. */
#ifndef CLATTN_SRC_MERGING_H
#define CLATTN_SRC_MERGING_H

#include "cl/layers/merge_params.h"
#include "operation/operands.h"

/* Tensor n is the out of place n (partials, then MERGED), tensor MERGE_PLACES + n its lse. */
extern const struct operation operation_merge;

clattn_status merge_problem_check(const clattn_merge_problem *given, clattn_merge_problem *problem);

/* One command: `count` partials, at most MERGE_AT_ONCE, into `merged`, which may be in place of any of them. */
clattn_status merge_operands(const clattn_merge_problem *problem, int count, const clattn_partial *partials,
                             const clattn_partial *merged, struct operands *operands);

#endif
