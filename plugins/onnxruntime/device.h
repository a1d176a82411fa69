/* The device that all sessions of a process share, and lanes: what one call has to itself. */
#ifndef CLATTN_ORT_DEVICE_H
#define CLATTN_ORT_DEVICE_H

#include "ort.h"

/* Opens the context that CLATTN_DEVICE names for one more user; the last one's device_close ends it. */
OrtStatus *device_open(clattn_context **context);
void device_close(void);

/* Whether the device, which must be open, computes in float64. */
int device_has_float64(void);

/* What a lane keeps memory for. */
enum scratch_use {
    SCRATCH_KEY,
    SCRATCH_VALUE,
    SCRATCH_QUERY,
    SCRATCH_OUT,
    SCRATCH_LENGTHS,
    SCRATCH_POSITIONS,
    SCRATCH_COSINE,
    SCRATCH_SINE,
    SCRATCH_SINKS,
    SCRATCH_QUERY_NORM,
    SCRATCH_KEY_NORM,
    SCRATCH_MASK,
    SCRATCH_WEIGHTS,
    SCRATCH_BIASED_QUERY,
    SCRATCH_BIASED_KEY,
    SCRATCH_BIASED_VALUE,
    SCRATCH_COUNT
};

/* A queue and memory that only grows: of one call at a time. */
struct lane {
    cl_command_queue queue;
    struct {
        void *data;
        size_t bytes;
    } scratch[SCRATCH_COUNT];
    struct lane *next;
};

/* A lane that no other call has, which lane_give takes back. The device must be open. */
OrtStatus *lane_take(struct lane **lane);
void lane_give(struct lane *lane);

/* Room for so many bytes; what was in it is lost. NULL: there is none. */
void *lane_room(struct lane *lane, enum scratch_use use, size_t bytes);

#endif
