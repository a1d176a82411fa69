/* Whether an output is right: the error against the float64 reference, as a share of the tolerance
 * that the plan stays below, whatever the numbers are. Rows are sampled when there are too many.
 *
 * With u = 2^-24 (2^-53 for float64), n = keys with a weight, A_j = |scale| sum_d |q_d k_jd| +
 * |bias_j| + |slope distance_j|, Abar = sum_j p_j A_j, M_d = sum_j p_j |v_jd|, c = min(n / 2 + 3, sum_roundings / 4):
 *
 *     out   4 u (sqrt(head_dim) Abar + c + 8) M_d + weight_rounding M_d, for 16-bit types plus
 *           half a unit of their last place
 *     lse   4 u (sqrt(head_dim) Abar + |lse| + c / 2 + 8), u = 2^-24
 *     tf32  + factor_rounding (4 Abar + 1) M_d, for lse + 2 factor_rounding Abar */
#ifndef CLATTN_TOOLS_CHECK_H
#define CLATTN_TOOLS_CHECK_H

#include <stdint.h>

#include "clattn.h"
#include "failure.h"

struct check {
    double largest_error;           /* of out */
    double out_share, lse_share;    /* largest error / tolerance; <= 1 is right; lse 0 when there is none */
    int64_t rows_checked, rows_all; /* of query rows times heads */
};

/* `context`: where a text of the user's own is computed (check_text.h). `plan`: what ran, which tells what it
 * rounds. `budget`: multiplications to spend, about; 1e8 is a second. */
int check_forward(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                  const clattn_host_tensors *tensors, const clattn_plan *plan, double budget, struct check *check,
                  struct failure *failure);

#endif
