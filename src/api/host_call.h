/* Blocking calls on host memory: copies in, one enqueue, copies the outputs out. */
#ifndef CLATTN_SRC_HOST_CALL_H
#define CLATTN_SRC_HOST_CALL_H

#include "program/context.h"
#include "operation/problem.h"

clattn_status host_forward(clattn_context *context, const struct problem *problem,
                           const struct call *call);

#endif
