/* Plans of recent problems, kept in the context for the blocking calls. A plan in use is taken out of the list, so
 * that no other thread can throw it away. */
#ifndef CLATTN_SRC_KEPT_PLANS_H
#define CLATTN_SRC_KEPT_PLANS_H

#include "operation/any_problem.h"
#include "program/context.h"

/* The list of a new context, which ends with it. */
void kept_plans_create(clattn_context *context);

/* A plan for the problem, kept or new; the caller has it until it is put back. */
clattn_status kept_plans_take(clattn_context *context, const struct any_problem *problem, struct clattn_plan **plan);

/* Puts a plan first and drops the oldest where there is no room. */
void kept_plans_put(clattn_context *context, struct clattn_plan *plan);

#endif
