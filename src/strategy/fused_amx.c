/* fused_amx: the kernel of fused_simd with both products in the matrix unit of x86 CPUs (AMX); bfloat16, and
 * float16 as the sum of two bfloat16 parts. */
#include "plan/amx.h"
#include "strategy/fused_simd.h"
#include "strategy/strategies.h"

static int applicable(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    if (ask->context->device.device_class != DEVICE_CPU) {
        return ask_declines(ask, "for CPU devices");
    }
    if (!amx_holds(p->type) || !amx_holds(p->key_type) || !amx_holds(p->value_type)) {
        return ask_declines(ask, "tiles hold bfloat16: for queries, keys and values in bfloat16 or float16");
    }
    return attention_reads_rows(ask) && simd_applicable(ask) && amx_is_there(ask);
}

static struct work work(struct ask *ask)
{
    return simd_work(ask, SIMD_TILES);
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    return simd_plan(ask, plan, SIMD_TILES, amx_products(amx_splits(&attention_problem(ask->problem)->p)));
}

static int tunable(struct ask *ask, struct tunable *result)
{
    return simd_tunable(ask, SIMD_TILES, result);
}

static int is_legal(struct ask *ask, const struct wisdom_tile *tile)
{
    return simd_is_legal(ask, SIMD_TILES, tile);
}

const struct strategy strategy_fused_amx = {
    .operation = &operation_forward,
    .name = "fused_amx",
    .summary = "fused_simd with its products in the matrix unit of x86 CPUs (AMX)",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .types = STRATEGY_16_BITS,
    .sum_roundings = 216, /* 17 + 130, row sums 32 + 34, the end */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct simd_state),
    .plan = plan,
    .enqueue = simd_enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
};
