/* The public calls that faults makes fail, each on what a life of a context has for it. */
#ifndef CLATTN_TESTS_ROBUST_FAULT_CALLS_H
#define CLATTN_TESTS_ROBUST_FAULT_CALLS_H

#include "sample.h"
#include "small_layers.h"
#include "support/small_cache.h"

enum { IN_ORDER, OUT_OF_ORDER, PROFILING, LIFE_QUEUES };

/* One life of a context, in the middle of which a call is made to fail. */
struct life {
    struct test_call test, expected;
    clattn_context *context;
    clattn_plan *plan;
    cl_command_queue queues[LIFE_QUEUES];
    struct sample_device device;
    struct small_layers layers;
    struct small_cache cache;
    char *text;
};

typedef clattn_status fault_call(struct life *life);
fault_call do_describe, do_open, do_plan, do_enqueue, do_enqueue_out_of_order, do_merge, do_mha, do_additive, do_host;
fault_call do_enqueue_host, do_rotary, do_append, do_backward, do_mha_backward, do_additive_backward, do_timed;

#endif
