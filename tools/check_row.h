/* The tolerance of a row, as the head of check.h has it, and what is compared by it. */
#ifndef CLATTN_TOOLS_CHECK_ROW_H
#define CLATTN_TOOLS_CHECK_ROW_H

#include "check.h"

struct check_row {
    clattn_type out_type;
    double unit, terms, of_sums; /* u; what it is multiplied by; what sums of so many keys add to that */
    double rounding, of_logits;  /* what a plan rounds besides: of M_d; of lse */
};

/* What a plan rounds: clattn_plan_weight_rounding, clattn_plan_factor_rounding, clattn_plan_sum_roundings. */
struct check_rounding {
    double weights, factors, sums;
};
struct check_rounding check_rounding_of(const clattn_plan *plan);

/* `magnitude`: Abar; `keys`: n. */
struct check_row check_row_of(const clattn_problem *problem, double magnitude, double keys,
                              const struct check_rounding *rounding);

/* `spread`: M_d. */
void check_out(const struct check_row *row, double got, double wanted, double spread, struct check *check);
void check_lse(const struct check_row *row, double got, double wanted, struct check *check);

#endif
