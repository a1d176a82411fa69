/* The gradients of queries, keys and values by cl/backward_simt.cl, a kernel for those of keys and one for those of
 * rows; of what else is asked for, by the kernels of plain. */
#include <stdlib.h>

#include "base/error.h"
#include "cl/backward_plain_layout.h"
#include "strategy/backward_owners.h"
#include "strategy/strategies.h"

struct simt_state {
    struct backward_plain plain;
    struct backward_simt simt;
};

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct backward_problem *b = backward_problem(any);
    const clattn_problem *p = &b->attention.p;
    if (p->type == CLATTN_FLOAT64) {
        text_append(why, "computes in float32");
        return 0;
    }
    return backward_owners_wanted(b, why) && backward_simt_fits(&context->device, p, why) &&
           backward_arguments_fit(&context->device, &b->attention, why);
}

/* Linear in batch and heads, so that the choice, and with it the bits, does not depend on them; multiply-adds a
 * millisecond and compute unit are fused_simt's. All three gradients count, also where one is asked for. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const double rate = context->device.device_class == DEVICE_GPU ? 6e7 : 5e4;
    const double work = backward_simt_work(&context->device, &attention_problem(any)->p);
    return work == 0 ? 1e30 : 0.05 + work / rate / (double)context->device.compute_units;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    struct simt_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    clattn_status status = backward_plain_measure(plan, BACKWARD_BLOCK);
    if (status == CLATTN_OK) {
        status = backward_plain_build(plan, backward_scalars_wanted(backward_problem(plan->problem)), &state->plain);
    }
    return status == CLATTN_OK ? backward_simt_build(plan, &state->simt, explain) : status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simt_state *state = plan->state;
    const clattn_owner_part parts[OWNERS] = { { 0 }, { 0 } };
    return backward_owners_enqueue(plan, operands, chain, &state->plain, &state->simt, backward_simt_run, parts);
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_backward_simt = {
    .operation = &operation_backward,
    .name = "fused_simt",
    .summary = "no score matrix in memory; a kernel for keys and one for rows, tiles through local memory, for GPUs",
    .knows = CLATTN_FLAGS_OF_ALL,
    .sum_roundings = 520, /* 512 + 3 */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
