/* What the programs of this folder share: the first error ends all ranks, and rank 0 says how far the worst of them was
 * from what is right. */
#ifndef MPI_EXAMPLE_H
#define MPI_EXAMPLE_H

#include <clattn_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline void must_all(clattn_status status, const char *message)
{
    if (status != CLATTN_OK) {
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Numbers from -1 to 1, others for each seed. */
static inline void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static inline float *numbers(size_t count)
{
    float *values = malloc((count ? count : 1) * sizeof(float));
    must_all(values ? CLATTN_OK : CLATTN_OUT_OF_HOST_MEMORY, "out of memory");
    return values;
}

static inline double largest_difference(const float *got, const float *right, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; ++i) {
        const double difference = fabs((double)got[i] - (double)right[i]);
        largest = difference <= largest ? largest : difference; /* a NaN stays */
    }
    return largest;
}

/* Whether no rank was further off than `limit`. */
static inline int all_are_right(const char *what, double difference, double limit)
{
    double largest = isnan(difference) ? INFINITY : difference;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s, %d ranks: largest difference %.1e\n", what, ranks, largest);
    }
    return largest <= limit;
}

#endif
