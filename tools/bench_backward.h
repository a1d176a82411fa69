/* The backward pass of a measured problem: its plan, dout and the gradients of queries, keys and values beside the
 * forward pass's tensors. */
#ifndef CLATTN_TOOLS_BENCH_BACKWARD_H
#define CLATTN_TOOLS_BENCH_BACKWARD_H

#include "bench_data.h"
#include "clattn_backward.h"
#include "options.h"

enum bench_gradient { BENCH_DOUT, BENCH_DQUERY, BENCH_DKEY, BENCH_DVALUE, BENCH_GRADIENTS };

struct bench_backward {
    clattn_backward_problem problem;
    clattn_plan *plan;
    struct tensor tensor[BENCH_GRADIENTS];
    cl_mem buffer[BENCH_GRADIENTS];
    clattn_host_gradients host;
    clattn_gradients device;
};

/* Plans and compiles. `forward` has CLATTN_WITH_LSE and outlives it, as data does; strategy NULL: the best. The caller
 * ends with bench_backward_free, after failures too. */
int bench_backward_make(const struct options *options, const clattn_problem *forward, const char *strategy,
                        clattn_context *context, struct bench_backward *backward, struct failure *failure);
void bench_backward_free(struct bench_backward *backward);

/* One call, from the out and lse that are on the device, waited for; after a call of `forward`, which it waits for too,
 * where that is not NULL. */
int bench_backward_call(const struct options *options, const struct bench_backward *backward,
                        const clattn_plan *forward, cl_command_queue queue, const struct bench_data *data,
                        struct failure *failure);

/* The largest error of the last call as a share of the bound; data->host has the forward pass's outputs. Some rows and
 * keys stand for all where there are many. */
int bench_backward_check(struct bench_backward *backward, clattn_context *context, const struct bench_data *data,
                         double *share, struct failure *failure);

/* Multiplications and additions of its five matrix products, of visible pairs only. */
double bench_backward_operations(const clattn_problem *problem);

#endif
