/* Rehearsals (program/rehearsal.h) of what the planner plans. */
#ifndef CLATTN_SRC_REHEARSE_PLAN_H
#define CLATTN_SRC_REHEARSE_PLAN_H

#include "plan/strategy.h"

/* Every kernel of the plan, for all calls that it allows; plan->compile_ms has what that costs. */
clattn_status rehearse_plan(struct clattn_plan *plan);

#endif
