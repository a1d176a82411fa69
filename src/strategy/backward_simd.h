/* What the strategies of cl/backward_simd/backward_simd.cl share: each runs it with products of its own. */
#ifndef CLATTN_SRC_BACKWARD_SIMD_H
#define CLATTN_SRC_BACKWARD_SIMD_H

#include "cl/backward_simd/backward_simd_layout.h"
#include "cl/simd/simd_layout.h"
#include "plan/strategy.h"
#include "strategy/backward_plain.h"

enum backward_product { BACKWARD_FMA = PRODUCT_FMA, BACKWARD_TILES = PRODUCT_TILES };

enum { BACKWARD_SUMS = SUM_ROWS + 1 };

struct backward_simd {
    struct backward_plain plain;
    struct kernel *row_rests, *rectangles, *add_sums;
    struct kernel *bias_sums, *add_bias_sums; /* where dbias is asked for */
    int64_t bias_elements;                    /* of the workspace, behind sums_at as the sums are: for parts of dbias */
    int64_t sums_at;                          /* elements of the workspace before them */
    int64_t groups, rows;                     /* of a launch, at most: key/value heads, packed rows of each */
    int64_t columns;                          /* of a row of dquery's sums */
    int64_t group;                            /* query heads of a key/value head; 0: there are none, nor rows */
    int block_keys, block_rows;
};

/* What the kernel needs, whatever the product. */
int backward_simd_applicable(struct ask *ask);

/* Beside the products, what is done with each pair takes as long as so many columns more. */
struct work backward_simd_work(struct ask *ask, enum rate_id rate, double pair_columns);

/* The functions of struct strategy. weight_parts: of weights and dZ, in tiles; `words` tells people which products they
 * are. */
clattn_status backward_simd_plan(struct ask *ask, struct clattn_plan *plan, enum backward_product product,
                                 int weight_parts, const char *words);
clattn_status backward_simd_enqueue(const struct clattn_plan *plan, const struct operands *operands,
                                    struct chain *chain);

/* What rectangles sum, as bits 1 << SUM_*. */
unsigned backward_simd_sums(const struct backward_problem *problem);

/* Where the sums of a launch are behind one another, and its totals behind them, by SUM_*; the elements of all. */
int64_t backward_simd_place(const struct backward_problem *problem, const struct backward_simd *state, int64_t groups,
                            int64_t rows, int64_t all_rows, int64_t key_len, int64_t at[BACKWARD_SUMS],
                            int64_t total_at[BACKWARD_SUMS]);

#endif
