/* What the strategies of cl/backward_gpu/backward_mma.cl share: each runs it on matrix units of its own. */
#ifndef CLATTN_SRC_BACKWARD_MMA_H
#define CLATTN_SRC_BACKWARD_MMA_H

#include "plan/matrix_unit.h"
#include "strategy/backward_owners.h"

#define BACKWARD_MMA_KERNELS 3 /* of rows; of keys and values, or of keys; of values */

struct backward_mma {
    struct backward_plain plain;
    struct backward_simt simt;
    const struct matrix_unit *unit;
    struct row_tile tile;
    struct kernel *kernels[BACKWARD_MMA_KERNELS];
    int64_t redo_at[OWNERS], redo_blocks[OWNERS]; /* in the workspace, in floats; of a plane */
    double launch_work_most;
};

/* matrix_unit_find, or another one like it. */
typedef const struct matrix_unit *matrix_unit_finder(struct ask *ask);

/* The functions of struct strategy; `name`: its own. */
int backward_mma_applicable(struct ask *ask, matrix_unit_finder *find_unit);
struct work backward_mma_work(struct ask *ask, matrix_unit_finder *find_unit, enum rate_id rate);
clattn_status backward_mma_plan(struct ask *ask, struct clattn_plan *plan, matrix_unit_finder *find_unit,
                                const char *name);
clattn_status backward_mma_enqueue(const struct clattn_plan *plan, const struct operands *operands,
                                   struct chain *chain);

/* Roundings of a sum: 2 (64 + 4). */
#define BACKWARD_MMA_SUM_ROUNDINGS 144

#endif
