/* Launching a fused kernel for GPUs over its blocks of query rows (cl/row_block.clh). Called by fused_simt and
 * fused_mma. */
#ifndef CLATTN_SRC_ROW_BLOCKS_H
#define CLATTN_SRC_ROW_BLOCKS_H

#include "strategy.h"

/* Kernels count rows and keys of a tile past the last one in int. */
#define ROW_BLOCKS_LENGTH_MAX (INT32_MAX - 4096)

/* Features that these kernels ask for at run time; the others are in -D FEATURES. */
#define ROW_BLOCKS_RUN_TIME_FEATURES                                                                   \
    (CLATTN_FLAG_KEY_LENGTHS | CLATTN_FLAG_VARLEN | CLATTN_FLAG_SINKS | CLATTN_FLAG_LSE)

struct row_blocks {
    struct kernel *kernel;
    int rows, columns, work_items; /* of a work-group */
    double block_work;             /* multiply-adds of one block of one head, all its column slices */
    double unit_work_most;         /* that one launch may do on one compute unit */
};

/* Blocks of `size` that hold `count`. */
int64_t row_blocks_of(int64_t count, int64_t size);

/* One sentence why no kernel of this form takes the problem on the device; 1: nothing is in the way. */
int row_blocks_applicable(const struct device *device, const struct problem *problem, struct text *why);

/* Enqueues the kernel over all rows, heads and column slices, in as many launches as the limit asks for;
 * how many does not change the result. */
clattn_status row_blocks_enqueue(const struct clattn_plan *plan, const struct row_blocks *blocks,
                                 const struct call *call, const clattn_params *params,
                                 struct chain *chain);

#endif
