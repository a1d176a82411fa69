/* Gradients of what all rows share, of slopes, sinks and the scale, and of a bias: sums in float64 over partial calls
 * and, where they are of no rank's rows alone, over ranks, in their order. */
#ifndef CLATTN_MPI_TOTALS_H
#define CLATTN_MPI_TOTALS_H

#include "given.h"

#define TOTALS_MOST 4

struct total {
    clattn_gradient gradient;
    clattn_type type;                /* of the caller's tensor */
    const clattn_host_tensor *given; /* the caller's */
    int is_of_keys;                  /* has elements for rows and keys: a bias */
    int64_t extent[4];               /* of the sum: batch, heads, this rank's rows, all keys; 1: is summed over */
    double *sum;
    void *part; /* what a partial call writes: float32, with type float64 that */
};

/* Where a partial call's gradients belong; heads are its own, `first_head` of the whole's first. */
struct total_place {
    int64_t rows, first_row, keys, first_key, key_step, heads, first_head;
};

struct play;

/* Those that are asked for; parts have at most so many rows and keys. totals_end gives back what it took, after
 * failures too. */
clattn_status totals_begin(struct play *play, int64_t rows, int64_t keys);
void totals_end(struct play *play);

/* Tensors of a partial call, cleared, into `g`; and what it wrote into the sums, of `gradients` alone. */
void totals_place(struct play *play, const struct total_place *place, clattn_host_gradients *g);
void totals_add(struct play *play, const struct total_place *place, uint32_t gradients);

/* Sums over ranks; collective. */
void totals_join(struct play *play);

/* Into the caller's tensors. */
void totals_give(const struct play *play);

#endif
