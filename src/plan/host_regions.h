/* Which tensors of a call in host memory are used where they lie, and by which buffers. OpenCL leaves undefined what
 * comes of two buffers on overlapping host memory, so tensors whose bytes meet (queries, keys and values of one
 * projection) are in one buffer. */
#ifndef CLATTN_SRC_HOST_REGIONS_H
#define CLATTN_SRC_HOST_REGIONS_H

#include "operation/operands.h"

/* Host memory that one buffer wraps: from the first byte of its tensors, down to a multiple of the alignment, to the
 * last one, up to a multiple. */
struct host_region {
    uintptr_t first, end;
    int is_written;
};

struct host_regions {
    int count;
    struct host_region region[OPERANDS_MAX];
    int of[OPERANDS_MAX]; /* of a tensor; -1: it is copied, or has no memory */
};

/* The regions of a call whose operands are checked; none where alignment_bytes is 0. Copied are: what does not lie at a
 * multiple of its element's bytes; what is written where another tensor's bytes may lie too, because inputs are read
 * before anything is written; and what would need a buffer of more than most_bytes. */
void host_regions_find(struct host_regions *regions, const struct operands *host, size_t alignment_bytes,
                       uint64_t most_bytes);

#endif
