/* The times of kernels: what calls put on one profiling queue is kept, with its events, until somebody asks. The chain
 * of a call adds to it; without one a chain asks for no event that it does not need. */
#ifndef CLATTN_SRC_KERNEL_TIMES_H
#define CLATTN_SRC_KERNEL_TIMES_H

#include "clattn_costs.h"
#include "program/context.h"

/* The commands that stand in the list as one kernel, on their way there. */
struct timed_kernel {
    const char *name, *file; /* live as long as the context */
    cl_event before;         /* NULL: it begins where `event` does; else where this one ends */
    cl_event event;          /* of its last command */
    uint64_t call;           /* from 0 */
};

clattn_status kernel_times_create(clattn_context *context, cl_command_queue queue, clattn_kernel_times **times);
void kernel_times_destroy(clattn_kernel_times *times);
void kernel_times_clear(clattn_kernel_times *times);

/* The times of a queue; NULL: nobody asked for them. */
clattn_kernel_times *kernel_times_of(clattn_context *context, cl_command_queue queue);

uint64_t kernel_times_count(clattn_kernel_times *times);
clattn_status kernel_times_get(clattn_kernel_times *times, uint64_t index, clattn_kernel_time *found);

/* Room for one more, before it is enqueued: afterwards nothing may fail. kernel_times_add or kernel_times_cancel
 * follows. */
clattn_status kernel_times_reserve(clattn_kernel_times *times);
void kernel_times_cancel(clattn_kernel_times *times);

/* Takes the events over. *call is the number of the caller's call, from 1; 0: it gets the next one. */
void kernel_times_add(clattn_kernel_times *times, const struct timed_kernel *kernel, uint64_t *call);

/* Commands of a library that leaves only its last one's event, on an in-order queue: where they begin is a marker,
 * *before. _end follows in any case and takes both events over; `last` NULL: the commands failed. */
clattn_status kernel_times_begin(clattn_kernel_times *times, cl_event *before);
void kernel_times_end(clattn_kernel_times *times, const char *name, const char *file, cl_event before, cl_event last,
                      uint64_t *call);

#endif
