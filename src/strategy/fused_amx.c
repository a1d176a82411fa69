/* fused_amx: the kernel of fused_simd with both products in the matrix unit of x86 CPUs (AMX); bfloat16, and
 * float16 as the sum of two bfloat16 parts. */
#include "plan/amx.h"
#include "strategy/fused_simd.h"
#include "strategy/strategies.h"

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    if (context->device.device_class != DEVICE_CPU) {
        text_append(why, "for CPU devices");
        return 0;
    }
    if (!amx_holds(p->type) || !amx_holds(p->key_type) || !amx_holds(p->value_type)) {
        text_append(why, "tiles hold bfloat16: for queries, keys and values in bfloat16 or float16");
        return 0;
    }
    if (!attention_reads_rows(problem, why) || !simd_applicable(context, problem, why)) {
        return 0;
    }
    return amx_is_there(context, why);
}

static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    return simd_cost_ms(context, problem, SIMD_TILES);
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    return simd_plan(plan, explain, SIMD_TILES, amx_products(amx_splits(p)));
}

static int tunable(const clattn_context *context, const struct any_problem *any, struct tunable *result)
{
    return simd_tunable(context, &attention_problem(any)->p, SIMD_TILES, result);
}

static int is_legal(const clattn_context *context, const struct any_problem *any, const struct wisdom_tile *tile)
{
    return simd_is_legal(context, &attention_problem(any)->p, SIMD_TILES, tile);
}

const struct strategy strategy_fused_amx = {
    .operation = &operation_forward,
    .name = "fused_amx",
    .summary = "fused_simd with its products in the matrix unit of x86 CPUs (AMX)",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .sum_roundings = 216, /* 17 + 130, row sums 32 + 34, the end */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = simd_enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
    .destroy = simd_destroy,
};
