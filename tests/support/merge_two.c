/* lse = ln(exp(lse_a) + exp(lse_b)); out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b. */
#include "support/merge_two.h"

#include <math.h>

void merge_row(int64_t columns, const double *out_a, double lse_a, const double *out_b, double lse_b,
               double *merged_out, double *merged_lse)
{
    const double none = -(double)INFINITY;
    double most = fmax(lse_a, lse_b);
    double lse = most > none ? most + log(exp(lse_a - most) + exp(lse_b - most)) : none;
    double share_a = lse_a > none ? exp(lse_a - lse) : 0, share_b = lse_b > none ? exp(lse_b - lse) : 0;
    for (int64_t c = 0; c < columns; ++c) {
        merged_out[c] = (share_a > 0 ? share_a * out_a[c] : 0) + (share_b > 0 ? share_b * out_b[c] : 0);
    }
    *merged_lse = lse;
}

clattn_status merge_two(clattn_context *context, cl_command_queue queue, clattn_type type, const int64_t shape[4],
                        const clattn_partial *a, const clattn_partial *b, const clattn_partial *merged, cl_uint n_wait,
                        const cl_event *wait, cl_event *done)
{
    clattn_merge_problem problem = CLATTN_MERGE_PROBLEM_INIT;
    const clattn_partial partials[2] = { *a, *b };
    problem.type = type;
    problem.batch = shape[0];
    problem.heads = shape[1];
    problem.rows = shape[2];
    problem.columns = shape[3];
    return clattn_merge(context, queue, &problem, 2, partials, merged, n_wait, wait, done);
}
