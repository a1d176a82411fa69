/* Sums of weights and largest logits in long double on the CPU: the definition of what is right. */
#ifndef CLATTN_SRC_REFERENCE_KEY_SUMS_H
#define CLATTN_SRC_REFERENCE_KEY_SUMS_H

#include "operation/key_sums.h"

/* Results before they are rounded, with what the error bound needs. Dense, owned by the caller, [batch, query_heads,
 * key_len] and [batch, query_heads]; NULL where not wanted. */
struct key_sums_detail {
    double *sums, *sum_units;        /* sum_i p_ij (sqrt(d) (1 + A_ij) + |lse_i| + 8) */
    double *largest, *largest_units; /* the same of the pair that has it: sqrt(d) (1 + A_ij) + |s_ij| */
};
clattn_status reference_key_sums_detail(const struct key_sums_problem *problem, const struct call *call,
                                        const struct key_sums_detail *detail);

#endif
