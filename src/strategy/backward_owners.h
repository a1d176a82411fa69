/* Gradients by kernels whose work-groups own a tile of rows, or of keys (cl/backward_gpu/backward_owner_layout.h):
 * their launches, and cl/backward_gpu/backward_simt.cl, which takes every tile; backward_mma leaves it those where
 * numbers are not finite. */
#ifndef CLATTN_SRC_BACKWARD_OWNERS_H
#define CLATTN_SRC_BACKWARD_OWNERS_H

#include "cl/backward_gpu/backward_owner_layout.h"
#include "plan/simt_tile.h"
#include "strategy/backward_plain.h"

/* What a work-group owns. */
enum owned { OWNED_ROWS, OWNED_KEYS, OWNERS };

/* A kernel, and the grid that it is launched on. */
struct owner_kernel {
    struct kernel *kernel;
    int tile_rows, work_items; /* rows or keys, and work-items, of a work-group */
    int64_t slices;            /* of columns */
    double pair_work;          /* multiply-adds of a pair, in all slices */
    double launch_work_most;   /* multiply-adds */
};

/* 0: none of dquery, dkey and dvalue is asked for. */
int backward_owners_wanted(struct ask *ask);

/* Pairs of rows and keys in tiles of so many, of which a causal mask leaves the half and what the diagonal cuts. Linear
 * in batch and heads. */
double backward_owner_pairs(const clattn_problem *p, int rows, int keys);

/* Whether what is owned may be summed over more rows (or keys) than a run has (cl/backward_gpu/owner_total.clh). */
int backward_owner_has_runs(const clattn_problem *p, enum owned owned);

/* Both kinds of kernel of one way to compute. */
typedef clattn_status owner_run(const struct backward_run *run, const void *state, enum owned owned,
                                const clattn_owner_part *part);

/* What cl/backward_gpu/backward_simt.cl was built for. */
struct backward_simt {
    struct kernel *kernels[OWNERS], *row_rests;
    struct simt_shape shapes[OWNERS]; /* of one tile */
    double launch_work_most;
};

/* A whole call: the terms of rows, of which `simt` finds the rests of lse as parts[OWNED_ROWS] says; `kernels` for
 * rows, then for keys, where some of their gradients are wanted, which `part` then says; and, by the kernels of plain,
 * what else is asked for. */
clattn_status backward_owners_enqueue(const struct clattn_plan *plan, const struct operands *operands,
                                      struct chain *chain, const struct backward_plain *plain,
                                      const struct backward_simt *simt, const void *state, owner_run *kernels,
                                      const clattn_owner_part parts[OWNERS]);

/* All tiles and planes, in as many launches as the work asks for. */
clattn_status backward_run_owner(const struct backward_run *run, const struct owner_kernel *kernel, enum owned owned,
                                 clattn_owner_part part);

/* ---- cl/backward_gpu/backward_simt.cl ----------------------------------------------------------------------- */

/* Whether some tile fits. */
int backward_simt_fits(struct ask *ask);

/* Multiply-adds of all three gradients. 0: no tile fits. */
double backward_simt_work(struct ask *ask);

/* Takes a tile that the device runs, and compiles; lines for clattn explain. */
clattn_status backward_simt_build(struct ask *ask, struct backward_simt *state);
void backward_simt_describe(struct ask *ask, const struct backward_simt *state);

/* An owner_run; `state`: of struct backward_simt. */
clattn_status backward_simt_run(const struct backward_run *run, const void *state, enum owned owned,
                                const clattn_owner_part *part);

#endif
