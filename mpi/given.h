/* What a caller gives, of any version of its structs; and what of it all ranks must say alike. */
#ifndef CLATTN_MPI_GIVEN_H
#define CLATTN_MPI_GIVEN_H

#include "ranks.h"

/* The caller's structs, as this library knows them: copies. */
struct given {
    clattn_problem whole;
    clattn_backward_problem backward; /* where rank_call.backward is; its `forward` is not for use */
    clattn_call call;
    clattn_host_tensors tensors;
    clattn_host_gradients gradients; /* as backward */
};

/* As the library takes structs (clattn.h): what an older one lacks has its default; a newer one that asks for what is
 * not known here is CLATTN_UNSUPPORTED, and a size that none has CLATTN_INVALID_ARGUMENT. */
clattn_status given_read(const struct rank_call *c, struct given *given, struct failure *failure);

/* Something that ranks say, as a number. */
struct alike {
    const char *name;
    int64_t value; /* never INT64_MIN */
};

/* All that they must say alike, in the same order on each rank: every field of problem, backward problem and call, the
 * values of key_lengths and query_offsets, and where gradients that are sums have strides of 0; how many there are. */
#define ALIKE_MOST 80
int given_alike(const struct rank_call *c, const struct given *given, struct alike alike[ALIKE_MOST]);

#endif
