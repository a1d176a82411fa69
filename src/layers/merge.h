/* Merging partial attentions over disjoint keys. */
#ifndef CLATTN_SRC_MERGE_H
#define CLATTN_SRC_MERGE_H

#include "operation/merging.h"
#include "plan/enqueue.h"

/* All `count` partials, in the order of the array. */
clattn_status merge_enqueue(clattn_context *context, const clattn_merge_problem *problem, int64_t count,
                            const clattn_partial *partials, const clattn_partial *merged,
                            const struct enqueue_target *target);

#endif
