/* The public calls that faults makes fail, each on what a life of a context has for it. */
#ifndef CLATTN_TESTS_ROBUST_FAULT_CALLS_H
#define CLATTN_TESTS_ROBUST_FAULT_CALLS_H

#include "layer_calls.h"
#include "support/small_cache.h"
#include "support/small_calls.h"

enum { IN_ORDER, OUT_OF_ORDER, PROFILING, LIFE_QUEUES };

/* One life of a context, in the middle of which a call is made to fail. */
struct life {
    struct test_call test, expected;
    clattn_context *context;
    clattn_plan *plan;
    cl_command_queue queues[LIFE_QUEUES];
    struct sample_device device;
    struct layer_calls layers;
    struct small_cache cache;
    char *text;
};

typedef clattn_status fault_call(struct life *life);
fault_call do_open, do_plan, do_enqueue, do_timed, do_host;

/* What is there before the call; each has what those before it have, but that plans have no layers. */
enum fault_needs { NEEDS_NOTHING, NEEDS_CONTEXT, NEEDS_BUFFERS, NEEDS_LAYERS, NEEDS_PLAN };

struct fault_step {
    const char *name;
    fault_call *call;
    enum fault_needs needs;
    int once;    /* works only once in a context: a life for each fault */
    int outputs; /* 1: in device memory, 2: in host memory */
    int blocks;  /* until nothing uses its buffers */
    int on_disk; /* the cache has its programs */
};

extern const struct fault_step fault_steps[];
extern const size_t fault_step_count;

#endif
