/* A fused kernel for GPUs: the tile that its work-groups have, and its launches over blocks of query rows
 * (cl/gpu_row_block.clh). */
#ifndef CLATTN_SRC_ROW_BLOCKS_H
#define CLATTN_SRC_ROW_BLOCKS_H

#include "cl/row_block_layout.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"
#include "plan/tuning.h"

/* What a work-group has. */
struct row_tile {
    struct tile tile;
    int depth, columns; /* that it multiplies: head_dim and its output columns, rounded up */
    size_t local_bytes;
};

struct row_blocks {
    struct kernel *kernel;
    const struct row_tile *tile;
    double unit_work_most; /* multiply-adds that one launch may do on one compute unit */
};

/* Blocks of `size` that hold `count`. */
int64_t row_blocks_of(int64_t count, int64_t size);

/* Whether the device has room for it; and what to say where it has room for none, or, once it is built, runs
 * fewer work-items than any has. */
int row_tile_fits(const struct device *device, const struct row_tile *tile);
void row_tile_none_fits(const struct device *device, struct text *why);
clattn_status row_tile_none_runs(const char *strategy, size_t work_items_most);

/* A line for clattn explain. */
void row_tile_describe(const struct row_tile *tile, const struct problem *problem, struct text *explain);

/* `rate`: multiply-adds a millisecond and compute unit. */
double row_tile_cost_ms(const struct device *device, const struct problem *problem, const struct row_tile *tile,
                        double rate);

/* One sentence why no kernel of this form takes the problem on the device; 1: nothing is in the way. */
int row_blocks_applicable(const struct device *device, const struct problem *problem, struct text *why);

/* Enqueues the kernel over all rows, heads and column slices, in as many launches as the limit asks for;
 * how many does not change the result. */
clattn_status row_blocks_enqueue(const struct clattn_plan *plan, const struct row_blocks *blocks,
                                 const struct operands *operands, struct chain *chain);

#endif
