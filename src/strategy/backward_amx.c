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

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct backward_problem *b = backward_problem(any);
    const clattn_problem *p = &b->attention.p;
    if (context->device.device_class != DEVICE_CPU) {
        text_append(why, "for CPU devices");
        return 0;
    }
    if (!amx_holds(p->type) || !amx_holds(p->key_type) || !amx_holds(p->value_type) || !amx_holds(p->out_type)) {
        text_append(why, "tiles hold bfloat16: for queries, keys, values and out in bfloat16 or float16");
        return 0;
    }
    if (wants_float32(b) && !b->attention.any.strategy_name[0]) {
        text_append(why, "gradients in float32: with allow_rounded_weights, or when asked for by name, since weights "
                         "and dZ have 16 bits");
        return 0;
    }
    if (!backward_simd_applicable(context, b, why)) {
        return 0;
    }
    return amx_is_there(context, why);
}

/* As measured; products of parts, and what is done with each pair beside them. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct backward_problem *b = backward_problem(any);
    const int half = is_half(&b->attention.p);
    return backward_simd_cost_ms(context, b, half ? 0.008 : 0.003, half ? 1.2 : 1.0);
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    const clattn_problem *p = &backward_problem(plan->problem)->attention.p;
    plan->weight_rounding = rounds_weights(p) ? 0x1p-8 : 0x1p-17;
    return backward_simd_plan(plan, explain, BACKWARD_TILES, rounds_weights(p) ? 1 : 2, amx_products(is_half(p)));
}

const struct strategy strategy_backward_amx = {
    .operation = &operation_backward,
    .name = "fused_amx",
    .summary = "fused_simd with its products in the matrix unit of x86 CPUs (AMX)",
    .knows = CLATTN_FLAGS_OF_ALL,
    .sum_roundings = 144, /* 128 + 3 */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = backward_simd_enqueue,
    .destroy = backward_simd_destroy,
};
