/* A fused kernel for GPUs: the tile that its work-groups have, and its launches over blocks of query rows
 * (cl/gpu/row_block.clh). */
#ifndef CLATTN_SRC_ROW_BLOCKS_H
#define CLATTN_SRC_ROW_BLOCKS_H

#include "cl/gpu/row_block_layout.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"
#include "plan/tuning.h"

/* What a work-group has. */
struct row_tile {
    struct tile tile;
    int depth, columns; /* that it multiplies: head_dim and its output columns, rounded up */
    size_t local_bytes;
    size_t second_local_bytes; /* beside them, of the second build alone, which the device was found to have */
};

struct row_blocks {
    struct kernel *kernel;
    const struct row_tile *tile;
    double unit_work_most; /* multiply-adds that one launch may do on one compute unit */
};

/* Whether the device has room for it; and, 0, that it has room for none. */
int row_tile_fits(const struct device *device, const struct row_tile *tile);
int row_tile_none_fits(struct ask *ask);

/* The next tile of a strategy from *rank on that the device has room for, kept in `state`; NULL: there is none. */
typedef const struct row_tile *row_tile_find(struct ask *ask, void *state, int *rank);

/* Builds the kernels of that tile, and lowers *limit to the work-items that the device runs them with. */
typedef clattn_status row_tile_build_one(struct ask *ask, void *state, size_t *limit);

/* Builds the first tile that the device, once it is built, has the registers for too. */
clattn_status row_tile_build(struct ask *ask, const char *strategy, row_tile_find *find, row_tile_build_one *build,
                             void *state);

/* A line for clattn explain. */
void row_tile_describe(const struct row_tile *tile, const struct problem *problem, struct text *explain);

/* Work of work-groups with this tile. It is not linear in batch and heads: few work-groups leave compute units idle. */
struct work row_tile_work(struct ask *ask, const struct row_tile *tile, enum rate_id rate);

/* 0: no kernel of this form takes the problem. */
int row_blocks_applicable(struct ask *ask);

/* Enqueues the kernel over all rows, heads and column slices, in as many launches as the limit asks for;
 * how many does not change the result. */
clattn_status row_blocks_enqueue(const struct clattn_plan *plan, const struct row_blocks *blocks,
                                 const struct operands *operands, struct chain *chain);

#endif
