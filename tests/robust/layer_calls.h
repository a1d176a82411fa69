/* The layers, and the gradients of attention, as small as they come, with memory of their own, for tests of what any
 * enqueued call must keep to. */
#ifndef CLATTN_TESTS_ROBUST_LAYER_CALLS_H
#define CLATTN_TESTS_ROBUST_LAYER_CALLS_H

#include "clattn_backward.h"
#include "clattn_layers.h"

struct layer_calls {
    clattn_mha *mha;
    clattn_additive *additive;
    clattn_plan *backward;
    clattn_mha_backward *mha_backward;
    clattn_additive_backward *additive_backward;
    cl_mem numbers, results, workspace;
};

/* 0: something failed, see clattn_last_error. What there is, layer_calls_release gives back. */
int layer_calls_create(struct layer_calls *layers, clattn_context *context);
void layer_calls_release(struct layer_calls *layers);

clattn_status layer_calls_mha(const struct layer_calls *layers, cl_command_queue queue, cl_event *done);
clattn_status layer_calls_additive(const struct layer_calls *layers, cl_command_queue queue, cl_event *done);
clattn_status layer_calls_backward(const struct layer_calls *layers, cl_command_queue queue, cl_event *done);
clattn_status layer_calls_mha_backward(const struct layer_calls *layers, cl_command_queue queue, cl_event *done);
clattn_status layer_calls_additive_backward(const struct layer_calls *layers, cl_command_queue queue, cl_event *done);

#endif
