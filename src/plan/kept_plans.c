#include "plan/kept_plans.h"

#include "plan/planner.h"

static void kept_plans_end(clattn_context *context, int forked)
{
    for (int i = 0; i < KEPT_PLANS && !forked; ++i) {
        planner_destroy(context->kept_plans[i]);
    }
    pthread_mutex_destroy(&context->plan_lock);
}

void kept_plans_create(clattn_context *context)
{
    pthread_mutex_init(&context->plan_lock, NULL);
    context_at_end(context, kept_plans_end);
}

clattn_status kept_plans_take(clattn_context *context, const struct any_problem *problem, struct clattn_plan **plan)
{
    *plan = NULL;
    pthread_mutex_lock(&context->plan_lock);
    for (int i = 0; i < KEPT_PLANS && !*plan; ++i) {
        struct clattn_plan *kept = context->kept_plans[i];
        if (kept && problem_equal(kept->problem, problem)) {
            *plan = kept;
            context->kept_plans[i] = NULL;
        }
    }
    pthread_mutex_unlock(&context->plan_lock);
    return *plan ? CLATTN_OK : planner_plan(context, problem, plan);
}

void kept_plans_put(clattn_context *context, struct clattn_plan *plan)
{
    pthread_mutex_lock(&context->plan_lock);
    for (int i = 0; i < KEPT_PLANS && plan; ++i) {
        struct clattn_plan *next = context->kept_plans[i];
        context->kept_plans[i] = plan;
        plan = next;
    }
    pthread_mutex_unlock(&context->plan_lock);
    planner_destroy(plan);
}
