/* What fused_simd and fused_amx share: they run cl/fused_simd.cl, each with its own block products. */
#ifndef CLATTN_SRC_FUSED_SIMD_H
#define CLATTN_SRC_FUSED_SIMD_H

#include "cl/simd_layout.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

enum simd_product { SIMD_FMA = PRODUCT_FMA, SIMD_DOT = PRODUCT_DOT, SIMD_TILES = PRODUCT_TILES, SIMD_PRODUCT_COUNT };

/* What the kernel needs, whatever the product. 0: appends one sentence why not. */
int simd_applicable(const clattn_context *context, const struct problem *problem, struct text *why);

double simd_cost_ms(const clattn_context *context, const struct problem *problem, enum simd_product product);

/* As in struct strategy. */
int simd_tunable(const clattn_context *context, const clattn_problem *p, enum simd_product product,
                 struct tunable *tunable);
int simd_is_legal(const clattn_context *context, const clattn_problem *p, enum simd_product product,
                  const struct wisdom_tile *tile);

/* The functions of struct strategy. `product_words` tells people which products they are. */
clattn_status simd_plan(struct clattn_plan *plan, struct text *explain, enum simd_product product,
                        const char *product_words);
clattn_status simd_enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain);
void simd_destroy(struct clattn_plan *plan);

#endif
