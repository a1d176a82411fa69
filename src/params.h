/* Fills the kernels' argument struct from a problem and a call. Called by api.c's enqueue. */
#ifndef CLATTN_SRC_PARAMS_H
#define CLATTN_SRC_PARAMS_H

#include "../cl/params.h"
#include "problem.h"

void params_fill(const struct problem *problem, const struct call *call, clattn_params *params);

#endif
