/* A rank's shard of a measured problem: tensors in host memory whose numbers follow from their place in the whole, so
 * that every rank can make any row of any tensor, and none has to have the whole. */
#ifndef CLATTN_TOOLS_RANKS_SHARD_H
#define CLATTN_TOOLS_RANKS_SHARD_H

#include "clattn_ring.h"
#include "failure.h"
#include "tensor.h"

enum shard_tensor {
    SHARD_QUERY,
    SHARD_DOUT,
    SHARD_KEY,
    SHARD_VALUE,
    SHARD_INPUTS, /* those before it are inputs */
    SHARD_OUT = SHARD_INPUTS,
    SHARD_LSE,
    SHARD_DQUERY,
    SHARD_DKEY,
    SHARD_DVALUE,
    SHARD_SLOPES, /* of the whole, on each rank */
    SHARD_SINKS,
    SHARD_TENSORS
};

/* Rows or keys of the whole, in the order of the shard. */
struct shard_axis {
    clattn_ring_piece piece[2];
    int pieces;
    int64_t count;
};

struct shard {
    const clattn_problem *whole;
    struct shard_axis rows, keys;
    struct tensor tensor[SHARD_TENSORS];
    clattn_host_tensors host;
    clattn_host_gradients gradients;
};

/* `whole` must outlive the shard. With `has_all_rows`, as decoding has it, only keys are divided. Without
 * `with_gradients` their tensors, and dout, are left out. The caller ends with shard_free, after failures too. */
int shard_make(const clattn_problem *whole, const clattn_ring_options *options, int has_all_rows, int with_gradients,
               struct shard *shard, struct failure *failure);
void shard_free(struct shard *shard);

/* The row or key of the whole that lies at `place`. */
int64_t shard_axis_at(const struct shard_axis *axis, int64_t place);

/* Rows 0 to count - 1 of the whole of some heads of a batch entry, [heads, count, columns], of an input. */
int shard_make_heads(const clattn_problem *whole, enum shard_tensor id, int64_t b, int64_t first_head, int64_t heads,
                     struct tensor *tensor, struct failure *failure);

#endif
