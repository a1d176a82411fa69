/* The float64 CPU reference: the executable form of what clattn computes. No OpenCL calls. */
#ifndef CLATTN_SRC_REFERENCE_H
#define CLATTN_SRC_REFERENCE_H

#include "operation/call.h"

/* Results before they are rounded to storage types, with what the error bound needs. Dense, owned by the
 * caller, [batch, query_heads, query_len, ...]; NULL where not wanted. Varlen: rows past a sequence's
 * end are not written, except in weights. */
struct reference_detail {
    double *out;               /* [.., head_dim_v] */
    double *lse;               /* [..] */
    double *magnitude;         /* Abar_i = sum_j p_ij A_ij, A_ij = |scale| sum_d |q_id k_jd| + |bias| + |alibi|;
                                * with a sink: that mean over the keys alone, + p_sink |sink|; with dropout:
                                * the larger of the means before and after */
    double *value_spread;      /* M_id = sum_j p_ij |v_jd|, p after dropout, [.., head_dim_v] */
    int64_t *allowed_keys;     /* n_i: keys allowed in row i */
    double *weights;           /* what the problem's weights mode asks for, [.., key_len] */
    double *weights_magnitude; /* A_ij; 0 where it was not needed, [.., key_len] */
};
clattn_status reference_forward_detail(const struct problem *problem, const struct call *call,
                                       const struct reference_detail *detail);

#endif
