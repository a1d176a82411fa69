/* The kernels of cl/backward_plain.cl as steps: what a row's gradients begin with, and gradients that are sums over
 * pairs, which other strategies of gradients leave to them. */
#ifndef CLATTN_SRC_BACKWARD_PLAIN_H
#define CLATTN_SRC_BACKWARD_PLAIN_H

#include "plan/backward_arguments.h"

enum backward_kernel { ROW_TERMS_KERNEL, DQUERY, DKEY_DVALUE, DBIAS, ROW_SUMS, HEAD_SUMS, BACKWARD_KERNELS };

struct backward_plain {
    struct kernel *kernels[BACKWARD_KERNELS];
    size_t items_per_group;
};

/* One call. */
struct backward_run {
    const struct backward_plain *state;
    struct backward_call_arguments call;
    struct chain *chain;
};

/* Sets plan->workspace_bytes to what these kernels need, from the workspace's beginning on. */
clattn_status backward_plain_measure(struct clattn_plan *plan);

/* What backward_run_row_terms and backward_run_scalars need of the problem. */
unsigned backward_scalars_wanted(const struct backward_problem *problem);

/* Compiles the kernels of `wanted`, bits 1 << enum backward_kernel. */
clattn_status backward_plain_build(struct clattn_plan *plan, unsigned wanted, struct backward_plain *state);

/* lse and D of all rows, to the workspace: every gradient comes after it. */
clattn_status backward_run_row_terms(const struct backward_run *run);

/* dbias, dslopes, dscale and dsinks, where they are asked for. */
clattn_status backward_run_scalars(const struct backward_run *run);

/* What they cost, by a guess. */
double backward_scalars_ms(const clattn_context *context, const struct backward_problem *problem);

#endif
