/* A rank that plays its schedule (clattn_ring.h) on host memory, whoever carries the messages. By the public API,
 * and the list of a problem's fields (src/operation/problem_fields.h). */
#ifndef CLATTN_MPI_RANKS_H
#define CLATTN_MPI_RANKS_H

#include <clattn_ring.h>

/* Who carries messages. Nothing here fails: a carrier that cannot go on ends the program, as MPI does. */
struct carrier {
    void *self;
    int64_t rank, ranks;
    /* Starts a message, whose memory must stay as it is until `is_done` has said so; a handle, never NULL. */
    void *(*send)(void *self, int64_t peer, int tag, const void *data, size_t bytes);
    void *(*receive)(void *self, int64_t peer, int tag, void *data, size_t bytes);
    int (*is_done)(void *self, void *handle); /* and frees the handle where it is */
    void (*rest)(void *self, int64_t ns);     /* between looks; about that long */
    /* All ranks meet: `values` become the largest of all ranks; `data` become those of `root`. */
    void (*largest)(void *self, int64_t *values, int count);
    void (*tell)(void *self, int64_t root, void *data, int bytes);
};

/* Until a message is done, whose handle becomes NULL; NULL: there is none. */
void carrier_wait(const struct carrier *carrier, void **handle);

#define FAILURE_BYTES 1024
struct failure {
    clattn_status status;
    char text[FAILURE_BYTES];
};

struct rank_call {
    clattn_context *context;
    const clattn_problem *whole;
    const clattn_backward_problem *backward; /* NULL: forward */
    clattn_ring_layout layout;
    clattn_ring_algorithm algorithm;
    const clattn_call *call; /* NULL: the defaults */
    const clattn_host_tensors *tensors;
    const clattn_host_gradients *gradients;
    char *
        *explained; /* NULL, or becomes what clattn_ring_explain says of the schedule, where there is one; free() it */
};

/* Collective: what one rank fails with all do. */
clattn_status ranks_run(const struct carrier *carrier, const struct rank_call *call, struct failure *failure);

#endif
