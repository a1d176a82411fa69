/* Plans of kernels that move rows of columns, turned by their positions: how they are cut, vectors of neighbouring
 * columns, and what a work-item does. A strategy says which kernel, and what the kernel alone knows. */
#ifndef CLATTN_SRC_ROW_RUNS_H
#define CLATTN_SRC_ROW_RUNS_H

#include "operation/turning.h"
#include "plan/strategy.h"

/* The rows of an operation. */
struct row_shape {
    clattn_type type;
    int64_t head_dim, head_dim_v; /* of values, which are not turned; 0: there are none */
    int has_blocks;               /* some are quantised in blocks, two vectors of 16 columns each */
    int strided;                  /* columns are not neighbours: they are taken one by one */
    int has_norms;                /* work-items of a row meet: a work-group has whole rows */
    int64_t shared[2];            /* columns that share a scale which is made of them; 0: none do */
};

/* A plan's state. */
struct row_runs {
    struct kernel *kernel;
    int run;        /* columns of a vector; 1: columns one by one */
    int tokens;     /* rows of a head that a work-item does one after the other */
    int unit_items; /* work-items side by side on the columns of a row */
    size_t group_items;
};

/* Compiles kernel `name` of cl/`file` with the options of cl/cache/rotary.clh, TOKENS and UNIT_ITEMS, and the kernel's
 * own, which are freed here. */
clattn_status row_runs_plan(struct ask *ask, struct clattn_plan *plan, const char *file, const char *name,
                            const struct row_shape *shape, const struct turning *turning, struct text *own_options);

/* A launch, for so many rows of each of so many heads: the kernel's params, then the first `count` tensors of the
 * operation in their order. */
clattn_status row_runs_enqueue(const struct clattn_plan *plan, const struct operands *operands, int count,
                               struct launch_argument params, int64_t rows, int64_t heads, struct chain *chain);

#endif
