/* Whether ranks computed what the whole's attention is: some rows and keys of each rank against the float64 reference,
 * as shares of what check.h and check_gradients.h allow. */
#ifndef CLATTN_TOOLS_RANKS_CHECK_RANKS_H
#define CLATTN_TOOLS_RANKS_CHECK_RANKS_H

#include <mpi.h>

#include "shard.h"

struct ranks_check {
    double share;       /* the largest error of a rank, of what is allowed; <= 1 is right */
    int64_t rows, keys; /* how many of this rank's were looked at, heads counted apart */
};

/* Collective. `backward`: with the shard's gradients. */
int check_ranks(MPI_Comm communicator, const clattn_ring_options *options, clattn_context *context,
                const struct shard *shard, int backward, struct ranks_check *check, struct failure *failure);

#endif
