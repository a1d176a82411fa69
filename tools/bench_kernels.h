/* What each kernel of a call takes, on a queue of its own that profiles. */
#ifndef CLATTN_TOOLS_BENCH_KERNELS_H
#define CLATTN_TOOLS_BENCH_KERNELS_H

#include <stddef.h>

#include "clattn.h"
#include "failure.h"

/* A kernel, all of its launches of a call together. */
struct bench_kernel {
    const char *name, *file; /* the context's */
    int launches;
    double ms;
};

struct bench_kernels {
    struct bench_kernel *list; /* in the order of the call */
    size_t count;
    double span_ms; /* from the first one's begin to the last one's end */
};

/* Makes the call on this queue, and waits for it. */
typedef int bench_turn(const void *subject, cl_command_queue queue, struct failure *failure);

/* Measures a few calls and keeps the one that took the least. The caller ends with bench_kernels_free. */
int bench_kernels_measure(clattn_context *context, bench_turn *turn, const void *subject, struct bench_kernels *found,
                          struct failure *failure);
void bench_kernels_free(struct bench_kernels *kernels);

#endif
