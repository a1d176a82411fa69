/* fused_wgmma: the kernel of fused_mma for gradients by the products of NVIDIA's warpgroups (cl/wgmma/products.clh). */
#include "strategy/backward_mma.h"
#include "strategy/strategies.h"

#define NAME "fused_wgmma"

static int applicable(struct ask *ask)
{
    return backward_mma_applicable(ask, warpgroup_unit_find);
}

static struct work work(struct ask *ask)
{
    return backward_mma_work(ask, warpgroup_unit_find, RATE_GRADIENTS_WGMMA);
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    return backward_mma_plan(ask, plan, warpgroup_unit_find, NAME);
}

const struct strategy strategy_backward_wgmma = {
    .operation = &operation_backward,
    .name = NAME,
    .summary = "fused_mma with the products of NVIDIA's warpgroups (Hopper)",
    .knows = CLATTN_FLAGS_OF_ALL,
    .takes = BACKWARD_TAKES,
    .types = STRATEGY_16_BITS,
    .sum_roundings = BACKWARD_MMA_SUM_ROUNDINGS,
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct backward_mma),
    .plan = plan,
    .enqueue = backward_mma_enqueue,
};
