/* From a problem to a plan: asks each strategy of the table, takes the cheapest or the one that was
 * asked for, and writes the explanation. */
#ifndef CLATTN_SRC_PLANNER_H
#define CLATTN_SRC_PLANNER_H

#include "plan/strategy.h"

clattn_status planner_plan(clattn_context *context, const struct any_problem *problem, struct clattn_plan **plan);
void planner_destroy(struct clattn_plan *plan);

#endif
