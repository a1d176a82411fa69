/* The error bound: how far each output of a call may be from the float64 reference, and how much of the
 * bound was needed. With u = 2^-24 (2^-53 for float64), n_i keys allowed in row i, A and M as
 * src/reference/reference.h has them, c_i = sum_bound(n_i, the plan's sum_roundings) or, where the test's terms are not
 * alike and it is less, sqrt(n_i), likewise for c_i / 2:
 *
 *     out      |err|_id <= C u (sqrt(dk) Abar_i + c_i + 8) M_id            C = 4
 *     lse      |err|_i  <= C u (sqrt(dk) Abar_i + |lse_i| + c_i / 2 + 8)
 *     16 bits  half an output ulp of (|ref| + t) + t, t the bound above; where the plan that ran
 *              rounds weights, + weight_rounding M_id (struct clattn_plan)
 *     tf32     + factor_rounding (4 Abar_i + 1) M_id, for lse + 2 factor_rounding Abar_i
 *     scores, logits  |err|_ij <= C u (sqrt(dk) + 8) A_ij
 *     softmax  |err|_ij <= C u (sqrt(dk) (A_ij + Abar_i) + |lse_i| + c_i / 2 + 8) p_ij
 *
 * plus what may underflow on a device that flushes subnormal numbers. */
#ifndef CLATTN_TESTS_SUPPORT_TOLERANCE_H
#define CLATTN_TESTS_SUPPORT_TOLERANCE_H

#include "reference/reference.h"
#include "test_call.h"

#define TOLERANCE_C 4.0

/* The reference's results for one call, owned. */
struct expected {
    struct reference_detail detail;
};
clattn_status expected_create(struct expected *expected, const struct test_call *test);
void expected_free(struct expected *expected);

struct verdict {
    double c_out, c_lse, c_weights; /* the C that this call needed */
    int64_t wrong;                  /* elements outside the bound */
    char first[256];                /* the first of them, in words */
};

/* Holds the outputs of `test` against what is expected. */
void tolerance_check(const struct test_call *test, const struct expected *expected, struct verdict *verdict);

#endif
