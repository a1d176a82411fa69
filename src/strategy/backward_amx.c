/* fused_amx: the kernel of fused_simd for gradients with its products in the matrix unit of x86 CPUs (AMX); bfloat16,
 * and float16 as the sum of two bfloat16 parts. */
#include "plan/amx.h"
#include "strategy/backward_simd.h"
#include "strategy/strategies.h"

static int is_half(const clattn_problem *p)
{
    return amx_splits(p) || p->out_type == CLATTN_FLOAT16;
}

/* Rounded weights, and dZ, are one part of bfloat16, not two. Where they meet float16 numbers, of two parts each, that
 * would be less than the type has. */
static int rounds_weights(const clattn_problem *p)
{
    return p->allow_rounded_weights && !is_half(p);
}

/* Who keeps gradients of 16-bit numbers in float32 wants what float32 has: two parts are 16 bits of a weight. In 16
 * bits the rounding of the result is far more. Which gradients are wanted is not asked: no bit may depend on that. */
static int wants_float32(const struct backward_problem *b)
{
    return b->dquery_type == CLATTN_FLOAT32 && !b->attention.p.allow_rounded_weights;
}

static int applicable(struct ask *ask)
{
    const struct backward_problem *b = backward_problem(ask->problem);
    const clattn_problem *p = &b->attention.p;
    if (ask->context->device.device_class != DEVICE_CPU) {
        return ask_declines(ask, "for CPU devices");
    }
    if (!amx_holds(p->type) || !amx_holds(p->key_type) || !amx_holds(p->value_type) || !amx_holds(p->out_type)) {
        return ask_declines(ask, "tiles hold bfloat16: for queries, keys, values and out in bfloat16 or float16");
    }
    if (wants_float32(b) && !ask->by_name) {
        return ask_declines(ask, "gradients in float32: with allow_rounded_weights, or when asked for by name, since "
                                 "weights and dZ have 16 bits");
    }
    return backward_simd_applicable(ask) && amx_is_there(ask);
}

static struct work work(struct ask *ask)
{
    return is_half(&attention_problem(ask->problem)->p) ? backward_simd_work(ask, RATE_GRADIENTS_AMX_HALF, 150)
                                                        : backward_simd_work(ask, RATE_GRADIENTS_AMX, 1000 / 3.0);
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    plan->weight_rounding = rounds_weights(p) ? 0x1p-8 : 0x1p-17;
    return backward_simd_plan(ask, plan, BACKWARD_TILES, rounds_weights(p) ? 1 : 2, amx_products(is_half(p)));
}

const struct strategy strategy_backward_amx = {
    .operation = &operation_backward,
    .name = "fused_amx",
    .summary = "fused_simd with its products in the matrix unit of x86 CPUs (AMX)",
    .knows = CLATTN_FLAGS_OF_ALL,
    .takes = BACKWARD_TAKES,
    .types = STRATEGY_16_BITS,
    .sum_roundings = 144, /* 128 + 3 */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct backward_simd),
    .plan = plan,
    .enqueue = backward_simd_enqueue,
};
