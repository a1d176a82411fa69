/* A plain read of a shape's keys and values by a kernel, which adds them up and does nothing else:
 * what the device's memory gives, beside the bandwidth of attention. */
#ifndef CLATTN_TOOLS_BENCH_READ_H
#define CLATTN_TOOLS_BENCH_READ_H

#include "bench_data.h"

struct bench_read {
    cl_program program;
    cl_kernel kernel;
    cl_mem sums;
    struct {
        cl_mem key, value;
        cl_ulong key_vectors, value_vectors;
    } part[4]; /* a pool in several buffers is read by a launch for each */
    int parts;
    size_t groups, items;
    double bytes; /* that a run reads */
};

/* The caller ends with bench_read_free, after failures too. `data` outlives the read. */
int bench_read_make(clattn_context *context, const struct bench_data *data, struct bench_read *read,
                    struct failure *failure);
void bench_read_free(struct bench_read *read);

/* Reads all once, and waits. */
int bench_read_run(clattn_context *context, const struct bench_read *read, struct failure *failure);

#endif
