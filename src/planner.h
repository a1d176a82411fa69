/* From a problem to a plan: asks each strategy of the table, takes the cheapest or the one that was
 * asked for, and writes the explanation. Called by api.c and the host calls. */
#ifndef CLATTN_SRC_PLANNER_H
#define CLATTN_SRC_PLANNER_H

#include "strategy.h"

clattn_status planner_plan(clattn_context *context, const struct problem *problem,
                           struct clattn_plan **plan);
void planner_destroy(struct clattn_plan *plan);

/* Enqueues a validated call: nothing when it has no output, else the strategy's commands. */
clattn_status planner_enqueue(const struct clattn_plan *plan, cl_command_queue queue,
                              const struct call *call, cl_uint n_wait, const cl_event *wait,
                              cl_event *done);

#endif
