/* The tolerance of a row, as the head of check.h has it, and what is compared by it. */
#ifndef CLATTN_TOOLS_CHECK_ROW_H
#define CLATTN_TOOLS_CHECK_ROW_H

#include "check.h"

struct check_row {
    clattn_type out_type;
    double unit, terms;         /* u; what it is multiplied by */
    double rounding, of_logits; /* what a plan rounds besides: of M_d; of lse */
};

/* `magnitude`: Abar; `keys`: n. */
struct check_row check_row_of(const clattn_problem *problem, double magnitude, double keys, double weight_rounding,
                              double factor_rounding);

/* `spread`: M_d. */
void check_out(const struct check_row *row, double got, double wanted, double spread, struct check *check);
void check_lse(const struct check_row *row, double got, double wanted, struct check *check);

#endif
