/* The gradients of queries, keys and values by cl/backward_gpu/backward_simt.cl, a kernel for those of keys and one for
 * those of rows; of what else is asked for, by the kernels of plain. */
#include "cl/backward/backward_plain_layout.h"
#include "strategy/backward_owners.h"
#include "strategy/strategies.h"

struct simt_state {
    struct backward_plain plain;
    struct backward_simt simt;
};

static int applicable(struct ask *ask)
{
    if (attention_problem(ask->problem)->p.type == CLATTN_FLOAT64) {
        return ask_declines(ask, "computes in float32");
    }
    return backward_owners_wanted(ask) && backward_simt_fits(ask) && backward_is_served(ask);
}

/* All three gradients count, also where one is asked for: bits, and so the choice, do not depend on that. */
static struct work work(struct ask *ask)
{
    const int on_gpu = ask->context->device.device_class == DEVICE_GPU;
    return (struct work){ .rate = on_gpu ? RATE_GRADIENTS_SIMT : RATE_GRADIENTS_SIMT_OFF_GPU,
                          .multiply_adds = backward_simt_work(ask) };
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    struct simt_state *state = plan->state;
    clattn_status status = backward_plain_measure(plan, BACKWARD_BLOCK);
    if (status == CLATTN_OK) {
        status = backward_plain_build(ask, backward_scalars_wanted(backward_problem(plan->problem)), &state->plain);
    }
    if (status == CLATTN_OK) {
        status = backward_simt_build(ask, &state->simt);
    }
    if (status == CLATTN_OK) {
        backward_simt_describe(ask, &state->simt);
    }
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simt_state *state = plan->state;
    const float rests_from = backward_rests_from(backward_problem(plan->problem));
    const clattn_owner_part parts[OWNERS] = { [OWNED_ROWS] = { .rests_from = rests_from } };
    return backward_owners_enqueue(plan, operands, chain, &state->plain, &state->simt, &state->simt, backward_simt_run,
                                   parts);
}

const struct strategy strategy_backward_simt = {
    .operation = &operation_backward,
    .name = "fused_simt",
    .summary = "no score matrix in memory; a kernel for keys and one for rows, tiles through local memory, for GPUs",
    .knows = CLATTN_FLAGS_OF_ALL,
    .takes = BACKWARD_TAKES,
    .types = STRATEGY_32_BITS,
    .sum_roundings = 520, /* 512 + 3 */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct simt_state),
    .plan = plan,
    .enqueue = enqueue,
};
