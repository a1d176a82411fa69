/* fused_simd: one kernel, no matrix of scores, query rows along the vector lanes; for CPU devices.
 * cl/simd/fused_simd.cl has the picture. This file says which product it takes: float32 multiply-adds, or, for
 * bfloat16, dot products of pairs where the ladder found that they are faster. */
#include "strategy/fused_simd.h"
#include "base/decimal.h"
#include "plan/ladder.h"
#include "strategy/strategies.h"

static int applicable(struct ask *ask)
{
    if (ask->context->device.device_class != DEVICE_CPU && !ask->by_name) {
        return ask_declines(ask, "for CPU devices, and others only when asked for by name");
    }
    return simd_applicable(ask);
}

static int reads_bfloat16(const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    return !(problem->flags & CLATTN_FLAG_RING) && p->type == CLATTN_BFLOAT16 && p->key_type == CLATTN_BFLOAT16 &&
           p->value_type == CLATTN_BFLOAT16;
}

/* `why_not` (may be NULL): why a problem in bfloat16 has no dot products. */
static enum simd_product product_of(struct ask *ask, struct text *why_not)
{
    return reads_bfloat16(attention_problem(ask->problem)) && ladder_has(ask, RUNG_AVX512_BF16, why_not) ? SIMD_DOT
                                                                                                         : SIMD_FMA;
}

static struct work work(struct ask *ask)
{
    return simd_work(ask, product_of(ask, NULL));
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    struct text words = TEXT_INIT, why_not = TEXT_INIT;
    const enum simd_product product = product_of(ask, &why_not);
    if (product == SIMD_DOT) {
        text_append(&words, "%s, dot products of bfloat16 pairs, %s times as fast as multiply-adds",
                    ladder_table[RUNG_AVX512_BF16].name, DECIMAL_FIXED(1, ladder_gain(ask->context, RUNG_AVX512_BF16)));
    } else {
        text_append(&words, "float32 multiply-adds");
        if (why_not.data) {
            text_append(&words, " (%s: %s)", ladder_table[RUNG_AVX512_BF16].name, why_not.data);
        }
    }
    clattn_status status = simd_plan(ask, plan, product, words.data ? words.data : "");
    text_free(&words);
    text_free(&why_not);
    return status;
}

static int tunable(struct ask *ask, struct tunable *result)
{
    return simd_tunable(ask, product_of(ask, NULL), result);
}

static int is_legal(struct ask *ask, const struct wisdom_tile *tile)
{
    return simd_is_legal(ask, product_of(ask, NULL), tile);
}

const struct strategy strategy_fused_simd = {
    .operation = &operation_forward,
    .name = "fused_simd",
    .summary = "query rows along vector lanes, no matrix of scores; CPU devices",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS | CLATTN_FLAG_KEY_LISTS,
    .types = STRATEGY_32_BITS,
    .sum_roundings = 216, /* 96 + 34, row sums 48 + 34, the end */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct simd_state),
    .plan = plan,
    .enqueue = simd_enqueue,
    .tunable = tunable,
    .is_legal = is_legal,
};
