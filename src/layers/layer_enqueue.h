/* What enqueueing a layer takes beside its kernels: chains of commands that follow one another, and buffers
 * that are large enough. */
#ifndef CLATTN_SRC_LAYER_ENQUEUE_H
#define CLATTN_SRC_LAYER_ENQUEUE_H

#include "program/launch.h"
#include "operation/layer.h"

/* The joint between a chain of commands and the next: an event where the queue does not keep the order. */
struct layer_joint {
    cl_command_queue queue;
    int in_order;
    cl_uint n_wait;
    const cl_event *wait; /* the caller's, until the first chain is enqueued */
    cl_event before;      /* of the chain before; owned */
};

/* Also checks that the queue is of the context. */
clattn_status layer_joint_begin(struct layer_joint *joint, const clattn_context *context,
                                cl_command_queue queue, cl_uint n_wait, const cl_event *wait);

/* What the next chain waits for, and where it leaves its event: NULL when none is needed. */
cl_uint layer_joint_count(const struct layer_joint *joint);
const cl_event *layer_joint_wait(const struct layer_joint *joint);

/* A chain is enqueued, its event is `event` (NULL on in-order queues). At the end: with NULL. */
void layer_joint_pass(struct layer_joint *joint, cl_event event);

/* `place` must hold `count` elements of the array. */
clattn_status layer_check_buffer(const struct layer_array *array, int64_t count,
                                 const struct layer_place *place);
clattn_status layer_check_workspace(cl_mem workspace, size_t bytes, const char *function);

/* Sizes of a workspace's sections -> where each begins, fit for a sub-buffer; *total is the whole. An error
 * when the device has not so much. A size below 0 stands for one that does not fit 64 bits. */
clattn_status layer_place_sections(const struct device *device, const int64_t *bytes, size_t *at,
                                   int count, size_t *total);

/* One section of a workspace as a buffer of its own, NULL where bytes is 0. The caller releases it after
 * enqueueing; commands keep it alive. */
clattn_status layer_section_buffer(cl_mem workspace, size_t at, size_t bytes, cl_mem *buffer);

#endif
