/* The sums of weights of a measured problem: their plan and their tensor, beside the forward pass's. Their time alone
 * is measured; `clattn run --key-sums --check` tells errors. */
#ifndef CLATTN_TOOLS_BENCH_KEY_SUMS_H
#define CLATTN_TOOLS_BENCH_KEY_SUMS_H

#include "bench_data.h"
#include "clattn_key_sums.h"
#include "options.h"

struct bench_key_sums {
    clattn_key_sums_problem problem;
    clattn_plan *plan;
    cl_mem buffer;
    clattn_key_sums device;
};

/* Plans and compiles, by --key-sums. `forward` has CLATTN_WITH_LSE and outlives it. The caller ends with
 * bench_key_sums_free, after failures too. */
int bench_key_sums_make(const struct options *options, const clattn_problem *forward, clattn_context *context,
                        struct bench_key_sums *sums, struct failure *failure);
void bench_key_sums_free(struct bench_key_sums *sums);

/* One call, from the lse that is on the device, waited for. */
int bench_key_sums_call(const struct options *options, const struct bench_key_sums *sums, cl_command_queue queue,
                        const struct bench_data *data, struct failure *failure);

#endif
