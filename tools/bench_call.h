/* One call on device buffers, waited for. */
#ifndef CLATTN_TOOLS_BENCH_CALL_H
#define CLATTN_TOOLS_BENCH_CALL_H

#include "bench_data.h"
#include "options.h"

/* With data->device.workspace, which the caller made. */
int bench_call(const struct options *options, const clattn_plan *plan, cl_command_queue queue,
               const struct bench_data *data, struct failure *failure);

/* *workspace is left alone where the plan needs none. */
int bench_workspace_make(const clattn_plan *plan, clattn_context *context, cl_mem *workspace, struct failure *failure);

/* Waits for all that is in the queue. */
int bench_finish(cl_command_queue queue, struct failure *failure);

#endif
