/* Fills the kernels' argument struct from a problem and a call. */
#ifndef CLATTN_SRC_FILL_PARAMS_H
#define CLATTN_SRC_FILL_PARAMS_H

#include "cl/forward_params.h"
#include "operation/call.h"

void params_fill(const struct problem *problem, const struct call *call, clattn_params *params);

#endif
