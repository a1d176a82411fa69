/* The time of enqueued calls on a lesson's device, and buffers for them. */
#ifndef CLATTN_TOOLS_LESSON_DEVICE_TIME_H
#define CLATTN_TOOLS_LESSON_DEVICE_TIME_H

#include "lesson.h"

/* A buffer of normal numbers; NULL and an error of the library's when it cannot be had. */
cl_mem device_normal(struct lesson_run *run, uint32_t stream, size_t count);
cl_mem device_empty(struct lesson_run *run, size_t bytes);

/* Something to measure: enqueues one call on the context's queue. */
struct device_job {
    clattn_status (*enqueue)(void *state, cl_command_queue queue);
    void *state;
    double work_seconds; /* result: the shortest by the clock; on a CPU device the least of the processors' time,
                          * which neighbours do not stretch as much */
};

int device_is_cpu(const struct lesson_run *run);

/* Measures all jobs in turns, so that a neighbour's load hits all alike, until `seconds` have passed and
 * each has run at least `rounds` times after its first call; keeps the shortest time of each. Goes on,
 * for a few times as long, while a round still finds times that are clearly shorter. */
clattn_status device_measure(struct lesson_run *run, struct device_job *jobs, size_t n, double seconds, int rounds);

#endif
