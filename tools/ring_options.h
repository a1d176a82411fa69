/* The options of `clattn ring`: a problem and the ranks that share it. */
#ifndef CLATTN_TOOLS_RING_OPTIONS_H
#define CLATTN_TOOLS_RING_OPTIONS_H

#include "clattn_ring.h"
#include "options.h"

/* What `clattn ring` tells a schedule by. */
int ring_options_read(const struct options *options, clattn_problem *problem, clattn_ring_options *ring,
                      struct failure *failure);

/* What ranks play one by, for about `seconds` a call: MPI says which rank of how many this is. */
int ring_options_read_measured(const struct options *options, clattn_problem *problem, clattn_ring_options *ring,
                               double *seconds, struct failure *failure);

#endif
