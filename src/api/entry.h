/* What the exported functions of every operation do, so that each of them is a line. `problem` and `given` are the
 * caller's, of the operation's public structs. */
#ifndef CLATTN_SRC_ENTRY_H
#define CLATTN_SRC_ENTRY_H

#include "layers/layer.h"
#include "operation/any_call.h"
#include "plan/enqueue.h"

/* Out of the arguments of an exported function. */
#define TARGET (&(const struct enqueue_target){ queue, n_wait, wait, done })

clattn_status entry_plan(clattn_context *context, const struct operation *operation, const void *problem,
                         clattn_plan **plan);

clattn_status entry_enqueue(const clattn_plan *plan, const struct operation *operation, const struct given *given,
                            const struct enqueue_target *target);

/* On host memory, without waiting. */
clattn_status entry_enqueue_host(const clattn_plan *plan, const struct operation *operation, const struct given *given,
                                 const struct enqueue_target *target);

/* Blocking, on host memory, by a kept plan. */
clattn_status entry_host(clattn_context *context, const struct operation *operation, const void *problem,
                         const struct given *given);

/* Checks what a call on host memory does, and computes nothing. The caller frees *problem, whatever this returns. */
clattn_status entry_check_host(const struct operation *operation, const void *given_problem, const struct given *given,
                               struct any_problem **problem);

/* Layers. `layer`: a clattn_mha ** or the like, which gets the layer, and what that is later. */
clattn_status entry_layer(clattn_context *context, const struct layer_kind *kind, const void *problem, void *layer);
void entry_layer_destroy(struct layer *layer);
clattn_status entry_layer_enqueue(const struct layer_kind *kind, const struct layer *layer, const struct given *given,
                                  const struct enqueue_target *target);
clattn_status entry_layer_host(clattn_context *context, const struct layer_kind *kind, const void *problem,
                               const struct given *given);

/* In float64, on host memory. */
clattn_status entry_reference(const struct operation *operation, const void *problem, const struct given *given);

#endif
