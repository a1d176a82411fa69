/* One call of a plan: queue, workspace and buffers are checked, then the strategy enqueues. */
#ifndef CLATTN_SRC_ENQUEUE_H
#define CLATTN_SRC_ENQUEUE_H

#include "plan/strategy.h"

/* Enqueues a validated call: nothing where it has no output, else the strategy's commands. */
clattn_status plan_enqueue(const struct clattn_plan *plan, cl_command_queue queue, const struct call *call,
                           cl_uint n_wait, const cl_event *wait, cl_event *done);

#endif
