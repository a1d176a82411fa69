/* Heads apart: each rank gets all rows and keys of some heads, computes them by one call, and sends the rows back. */
#ifndef CLATTN_MPI_HEADS_H
#define CLATTN_MPI_HEADS_H

#include "play.h"

/* Memory for a schedule of CLATTN_RING_HEADS; what it has is given back by heads_end, after failures too. */
clattn_status heads_begin(struct play *play);
void heads_end(struct play *play);

/* All steps, into the caller's tensors; collective. */
void heads_play(struct play *play);

#endif
