/* What fused_simd and fused_amx share: they run cl/simd/fused_simd.cl, each with its own block products. */
#ifndef CLATTN_SRC_FUSED_SIMD_H
#define CLATTN_SRC_FUSED_SIMD_H

#include "cl/simd/simd_layout.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

enum simd_product { SIMD_FMA = PRODUCT_FMA, SIMD_DOT = PRODUCT_DOT, SIMD_TILES = PRODUCT_TILES, SIMD_PRODUCT_COUNT };

struct simd_state {
    struct kernel *kernel;
    int group_rows; /* of a key/value head, a work-group */
    int group;      /* heads of a key/value head */
};

/* The functions of struct strategy, for one of the products; `product_words` tells people which one. */
int simd_applicable(struct ask *ask);
struct work simd_work(struct ask *ask, enum simd_product product);
clattn_status simd_plan(struct ask *ask, struct clattn_plan *plan, enum simd_product product,
                        const char *product_words);
clattn_status simd_enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain);
int simd_tunable(struct ask *ask, enum simd_product product, struct tunable *tunable);
int simd_is_legal(struct ask *ask, enum simd_product product, const struct wisdom_tile *tile);

#endif
