/* The calls on host memory: buffers for it, one enqueue, and what is written back in host memory. */
#ifndef CLATTN_SRC_HOST_CALL_H
#define CLATTN_SRC_HOST_CALL_H

#include "layers/layer.h"
#include "operation/call.h"
#include "operation/mha.h"
#include "plan/enqueue.h"
#include "program/context.h"

/* By a kept plan. The operands are those that the call of the problem's operation begins with; they become the
 * device's, which no one needs afterwards. */
clattn_status host_planned(clattn_context *context, const struct any_problem *problem, struct operands *operands);

/* By a plan that is there, without waiting, on any queue. */
clattn_status host_enqueue(const struct clattn_plan *plan, const struct enqueue_target *target,
                           struct operands *operands);

clattn_status host_forward(clattn_context *context, const struct problem *problem, struct call *call);

/* A layer, planned for one call. */
clattn_status host_layer(clattn_context *context, const struct layer_kind *kind, const void *problem,
                         const struct operands *operands);

/* The multi-head layer; separate weights may be packed on the way. */
clattn_status host_mha(clattn_context *context, const struct mha_problem *problem, const struct operands *operands);

#endif
