/* From the caller's structs to a checked problem and a checked call, and on to the floor that computes. */
#include "api/entry.h"

#include <string.h>

#include "api/host_enqueue.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/uncancelled.h"
#include "operation/overlap.h"
#include "plan/host_session.h"
#include "plan/kept_plans.h"
#include "plan/planner.h"

clattn_status entry_plan(clattn_context *context, const struct operation *operation, const void *problem,
                         clattn_plan **plan)
{
    UNCANCELLED;
    REQUIRE(plan);
    *plan = NULL;
    struct any_problem *checked = NULL;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = any_problem_new(operation, problem, &checked);
    }
    if (status == CLATTN_OK) {
        status = planner_plan(context, checked, plan);
    }
    problem_free(checked);
    return status;
}

clattn_status entry_enqueue(const clattn_plan *plan, const struct operation *operation, const struct given *given,
                            const struct enqueue_target *target)
{
    UNCANCELLED;
    struct any_call call;
    clattn_status status = enqueue_check(plan, operation, target->queue, target->done);
    if (status == CLATTN_OK) {
        status = any_call_from_device(plan->problem, given, &call.operands);
    }
    return status == CLATTN_OK ? enqueue_plan(plan, target, &call.operands) : status;
}

static clattn_status check_host_call(const struct any_problem *problem, const struct given *given,
                                     struct any_call *call)
{
    const clattn_status status = any_call_from_host(problem, given, &call->operands);
    return status == CLATTN_OK ? any_call_check_values(problem, &call->operands) : status;
}

clattn_status entry_enqueue_host(const clattn_plan *plan, const struct operation *operation, const struct given *given,
                                 const struct enqueue_target *target)
{
    UNCANCELLED;
    struct any_call call;
    clattn_status status = enqueue_check(plan, operation, target->queue, target->done);
    if (status == CLATTN_OK) {
        status = check_host_call(plan->problem, given, &call);
    }
    return status == CLATTN_OK ? host_enqueue(plan, target, &call.operands) : status;
}

/* The caller frees *problem, whatever this returns. */
static clattn_status check_host(const struct operation *operation, const void *given_problem, const struct given *given,
                                struct any_problem **problem, struct any_call *call)
{
    const clattn_status status = any_problem_new(operation, given_problem, problem);
    return status == CLATTN_OK ? check_host_call(*problem, given, call) : status;
}

clattn_status entry_check_host(const struct operation *operation, const void *given_problem, const struct given *given,
                               struct any_problem **problem)
{
    UNCANCELLED;
    struct any_call call;
    return check_host(operation, given_problem, given, problem, &call);
}

static clattn_status run_kept(clattn_context *context, const struct any_problem *problem, struct operands *operands)
{
    struct clattn_plan *plan;
    clattn_status status = kept_plans_take(context, problem, &plan);
    if (status == CLATTN_OK) {
        status = host_session_run(plan, context->queue, operands, HOST_CONTENT_NOW);
        kept_plans_put(context, plan);
    }
    return status;
}

/* By a kept plan; of a layer (`kind` not NULL), as that is run. */
static clattn_status run_on_host(clattn_context *context, const struct operation *operation,
                                 const struct layer_kind *kind, const void *problem, const struct given *given)
{
    struct any_problem *checked = NULL;
    struct any_call call;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = check_host(operation, problem, given, &checked, &call);
    }
    if (status == CLATTN_OK) {
        status = !kind               ? run_kept(context, checked, &call.operands)
                 : kind->run_on_host ? kind->run_on_host(context, checked, &call.operands)
                                     : layer_run(context, kind, checked, &call.operands);
    }
    problem_free(checked);
    return status;
}

clattn_status entry_host(clattn_context *context, const struct operation *operation, const void *problem,
                         const struct given *given)
{
    UNCANCELLED;
    return run_on_host(context, operation, NULL, problem, given);
}

/* ---- layers ----------------------------------------------------------------------------------- */

static clattn_status must_not_be_null(const struct layer_kind *kind)
{
    return error_set(CLATTN_INVALID_ARGUMENT, "%s: must not be NULL", kind->argument);
}

clattn_status entry_layer(clattn_context *context, const struct layer_kind *kind, const void *problem, void *result)
{
    UNCANCELLED;
    struct any_problem *checked = NULL;
    struct layer *layer = NULL;
    if (!result) {
        return must_not_be_null(kind);
    }
    memcpy(result, &layer, sizeof(layer));
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = any_problem_new(kind->operation, problem, &checked);
    }
    if (status == CLATTN_OK) {
        status = layer_create(context, kind, checked, &layer);
    }
    memcpy(result, &layer, sizeof(layer));
    problem_free(checked);
    return status;
}

void entry_layer_destroy(struct layer *layer)
{
    UNCANCELLED;
    layer_destroy(layer);
}

/* No event is left of a call that fails. */
clattn_status entry_layer_enqueue(const struct layer_kind *kind, const struct layer *layer, const struct given *given,
                                  const struct enqueue_target *target)
{
    UNCANCELLED;
    const cl_command_queue queue = target->queue;
    struct operands operands;
    if (target->done) {
        *target->done = NULL;
    }
    if (!layer) {
        return must_not_be_null(kind);
    }
    REQUIRE(queue);
    clattn_status status = context_check(layer->context);
    if (status == CLATTN_OK) {
        status = any_call_from_device(layer->problem, given, &operands);
    }
    return status == CLATTN_OK ? layer_enqueue(layer, target, &operands) : status;
}

clattn_status entry_layer_host(clattn_context *context, const struct layer_kind *kind, const void *problem,
                               const struct given *given)
{
    UNCANCELLED;
    return run_on_host(context, kind->operation, kind, problem, given);
}

/* ---- references ------------------------------------------------------------------------------- */

clattn_status entry_reference(const struct operation *operation, const void *problem, const struct given *given)
{
    ROUNDED_TO_NEAREST;
    struct any_problem *checked = NULL;
    struct any_call call;
    clattn_status status = check_host(operation, problem, given, &checked, &call);
    if (status == CLATTN_OK) {
        status = operands_check_apart(&call.operands, 0);
    }
    if (status == CLATTN_OK) {
        status = operation->reference(checked, &call.operands);
    }
    problem_free(checked);
    return status;
}
