/* The kernels of cl/backward/backward_plain.cl as steps: gradients that are sums over pairs, which other strategies of
 * gradients leave to them. */
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

/* Sets plan->workspace_bytes to what these kernels need, from the workspace's beginning on. What dslopes and dscale are
 * sums of lies behind the terms of rows, a pair of numbers for so many rows of a plane: BACKWARD_BLOCK, or 1. */
clattn_status backward_plain_measure(struct clattn_plan *plan, int64_t rows_of_sum);

/* What backward_run_scalars needs of the problem, and what backward_run_head_sums does. */
unsigned backward_scalars_wanted(const struct backward_problem *problem);
unsigned backward_head_sums_wanted(const struct backward_problem *problem);

/* Compiles the kernels of `wanted`, bits 1 << enum backward_kernel. */
clattn_status backward_plain_build(struct ask *ask, unsigned wanted, struct backward_plain *state);

/* The |lse| from which on its rounding to float32 is seen in gradients that are kept in 16 bits, and in those of the
 * problem: docs/numbers.md. */
#define RESTS_FROM_OF_16_BITS 256
float backward_rests_from(const struct backward_problem *problem);

/* dbias, dslopes, dscale and dsinks, where they are asked for. */
clattn_status backward_run_scalars(const struct backward_run *run);

/* dslopes and dscale, where they are asked for, of sums that are in the workspace, and dsinks. of_rows: SUMS_OF_ROWS,
 * or 0 for blocks of rows. */
clattn_status backward_run_head_sums(const struct backward_run *run, int of_rows);

#endif
