/* Rotary tables of one call, gathered: a row of cosines and sines for each token. */
#ifndef CLATTN_ORT_ROTARY_H
#define CLATTN_ORT_ROTARY_H

#include "operands.h"

/* Where tokens stand: ids [batch, rows], or [1] that the rows of all entries count from, int64; ids without data: row i
 * of entry b stands at starts[b] + i. */
struct positions {
    struct tensor ids;
    const int32_t *starts;
};

struct rotary_tables {
    clattn_host_tensor cosine, sine; /* [batch, 1, rows, columns / 2], float32, in the lane's memory */
    int64_t columns;
};

/* Out of caches [positions, columns / 2] of the queries' type, or of float32. */
OrtStatus *rotary_tables_of(const struct run *run, const struct tensor *cosine, const struct tensor *sine,
                            const struct positions *positions, int64_t batch, int64_t rows,
                            struct rotary_tables *tables);

#endif
