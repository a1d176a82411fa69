/* Sizes of a work-group of fused_simt and of its gradients, by a row of the tuning table. */
#ifndef CLATTN_SRC_SIMT_TILE_H
#define CLATTN_SRC_SIMT_TILE_H

#include "plan/row_blocks.h"

/* Multiply-adds that one launch may do on one compute unit: at most about a second on a slow device, so that a watchdog
 * does not strike. Longer calls are cut along heads and tiles, which changes no bit of the result. */
#define SIMT_LAUNCH_WORK_PER_UNIT 4e9

struct simt_shape {
    struct row_tile of; /* local_bytes: of stage and of the tile of weights */
    int keys_staged;    /* values in local memory at once */
};

/* For scores of `depth` columns and outputs of `output_columns`. */
struct simt_shape simt_shape_of(const struct tile *tile, int64_t depth, int64_t output_columns, size_t real_bytes);

/* Appends what its program is told of it and of the problem. */
void simt_append_options(const struct problem *problem, const struct simt_shape *shape, struct text *options);

#endif
