/* One call, from its tensors to the commands on a queue: the queue, the workspace and the buffers are checked
 * once, then one chain of commands is begun and ended. */
#ifndef CLATTN_SRC_ENQUEUE_H
#define CLATTN_SRC_ENQUEUE_H

#include "plan/strategy.h"

/* Where the caller wants the commands: queue, what they wait for, and the event that says that they are done. */
struct enqueue_target {
    cl_command_queue queue;
    cl_uint n_wait;
    const cl_event *wait;
    cl_event *done; /* NULL: not wanted */
};

/* What every public call that enqueues a plan asks first: that there is a plan, of this process and this operation, and
 * a queue. Clears *done (may be NULL), which it is after an error. */
clattn_status enqueue_check(const struct clattn_plan *plan, const struct operation *operation, cl_command_queue queue,
                            cl_event *done);

/* Begins the chain of a call: the queue and every buffer must be of the context, buffers must hold what the
 * strides reach and the workspace so many bytes. After CLATTN_OK the caller ends the chain by chain_end. */
clattn_status enqueue_begin(clattn_context *context, const struct enqueue_target *target,
                            const struct operands *operands, size_t workspace_bytes, struct chain *chain);

/* One call of a plan; the call of the plan's operation begins with these operands. */
clattn_status enqueue_plan(const struct clattn_plan *plan, const struct enqueue_target *target,
                           const struct operands *operands);

/* A plan's commands as a part of a chain that has begun: nothing is checked here. */
clattn_status enqueue_in_chain(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain);

#endif
