/* The layers, and the gradients of attention, as small as they come, with memory of their own, for tests of what any
 * enqueued call must keep to. */
#ifndef CLATTN_TESTS_ROBUST_SMALL_LAYERS_H
#define CLATTN_TESTS_ROBUST_SMALL_LAYERS_H

#include "clattn_backward.h"
#include "clattn_layers.h"

struct small_layers {
    clattn_mha *mha;
    clattn_additive *additive;
    clattn_plan *backward;
    clattn_mha_backward *mha_backward;
    clattn_additive_backward *additive_backward;
    cl_mem numbers, results, workspace;
};

/* 0: something failed, see clattn_last_error. What there is, small_layers_release gives back. */
int small_layers_create(struct small_layers *layers, clattn_context *context);
void small_layers_release(struct small_layers *layers);

clattn_status small_layers_mha(const struct small_layers *layers, cl_command_queue queue, cl_event *done);
clattn_status small_layers_additive(const struct small_layers *layers, cl_command_queue queue, cl_event *done);
clattn_status small_layers_backward(const struct small_layers *layers, cl_command_queue queue, cl_event *done);
clattn_status small_layers_mha_backward(const struct small_layers *layers, cl_command_queue queue, cl_event *done);
clattn_status small_layers_additive_backward(const struct small_layers *layers, cl_command_queue queue, cl_event *done);

#endif
