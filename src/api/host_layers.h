/* Blocking calls of layers on host memory: copies to the device, one call, copies back. */
#ifndef CLATTN_SRC_HOST_LAYERS_H
#define CLATTN_SRC_HOST_LAYERS_H

#include "layers/additive_layer.h"
#include "layers/mha_layer.h"

/* `given` is what the public call was given; its problem may be packed on the way. */
clattn_status host_mha(clattn_context *context, const clattn_mha_problem *given,
                       const clattn_mha_host_arrays *arrays);
clattn_status host_additive(clattn_context *context, const struct additive_problem *problem,
                            const struct additive_call *call);

#endif
