/* Setting arguments and enqueueing kernels, and the chain of events through one call's commands. The
 * only file that does either. */
#ifndef CLATTN_SRC_LAUNCH_H
#define CLATTN_SRC_LAUNCH_H

#include "program/kernel_times.h"
#include "program/program.h"

/* The commands of one call, each after the one before, on in-order and out-of-order queues alike. */
struct chain {
    cl_command_queue queue;
    int in_order;
    cl_uint n_wait; /* the caller's events, for the first command */
    const cl_event *wait;
    cl_event *done;             /* the caller's, or NULL */
    cl_event last;              /* out-of-order queues: of the command before; owned */
    int next_is_final;          /* set by chain_final */
    int more_follows;           /* the commands are a part of a larger call: none of them is the last */
    int has_done;               /* *done was set by the final command */
    clattn_kernel_times *times; /* of the queue, or NULL */
    uint64_t timed_call;        /* kernel_times_add() */
    clattn_context *rehearses;  /* NULL: a call; else the commands are a rehearsal of a plan of that context */
    double rehearsal_ms;        /* that launches of the rehearsal took to compile */
};

/* A caller's queue must be of the context's device and cl_context. */
clattn_status chain_check_queue(const clattn_context *context, cl_command_queue queue);

/* So must a caller's buffer, called `name` in messages; *bytes is its size. */
clattn_status chain_check_buffer(const clattn_context *context, cl_mem buffer, const char *name, size_t *bytes);

/* The buffer's flags allow what kernels do with it. */
clattn_status chain_check_access(cl_mem buffer, const char *name, int is_read, int is_written);

/* A caller's list of events: none of them NULL. */
clattn_status chain_check_wait(cl_uint n_wait, const cl_event *wait);

clattn_status chain_begin(struct chain *chain, cl_command_queue queue, cl_uint n_wait, const cl_event *wait,
                          cl_event *done);

/* The next command is the last one: it makes the caller's event, which saves a marker. Optional; nothing while
 * chain->more_follows. */
void chain_final(struct chain *chain);

/* Ends the chain after success or failure: makes *done when no command did and status is CLATTN_OK,
 * releases what is left, and returns `status` or its own failure. */
clattn_status chain_end(struct chain *chain, clattn_status status);

/* Before commands of a library that takes no wait list (CLBlast): makes the queue wait for the chain's
 * events. Only for in-order queues. */
clattn_status chain_flush_waits(struct chain *chain);

/* Work-groups along the second or third axis: NVIDIA's GPUs take no more. */
#define LAUNCH_GROUPS_MOST 65535

/* How many of `planes` stand along the third axis of one launch, where work allows `at_once`: at least 1 of some. */
int64_t launch_planes(int64_t planes, double at_once);

/* A grid of items (rows, tiles) by planes (heads), in as many launches as its work asks for: all items of some planes,
 * or some items of one plane. */
struct launch_part {
    int64_t first, count;        /* items of this launch */
    int64_t first_plane, planes; /* and its planes */
    int is_last;
    int64_t items, item_step, all_planes, plane_step;
};

/* Before the first part. at_once: items that are work enough for one launch. No bit may depend on it. */
struct launch_part launch_parts(int64_t items, int64_t planes, double at_once);

/* The next part; 0: there are no more. */
int launch_next(struct launch_part *part);

/* One kernel argument; a NULL buffer: value points to a NULL cl_mem. */
struct launch_argument {
    size_t bytes;
    const void *value;
};

#define ARGUMENT(lvalue)                                                                                               \
    {                                                                                                                  \
        sizeof(lvalue), &(lvalue)                                                                                      \
    }

/* Enqueues one kernel as the chain's next command. global must be a multiple of local; a launch with a
 * zero in global is nothing. */
clattn_status launch(struct chain *chain, struct kernel *kernel, cl_uint dims, const size_t *global,
                     const size_t *local, size_t n_arguments, const struct launch_argument *arguments);

/* The steps of launch(), where there is something to launch: rehearsal.c takes them too. */
clattn_status launch_kernel(struct chain *chain, struct kernel *kernel, cl_uint dims, const size_t *global,
                            const size_t *local, size_t n_arguments, const struct launch_argument *arguments);

#endif
