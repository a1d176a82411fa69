/* Additive attention in float64 on the CPU. Called by api_layers.c and tests. */
#ifndef CLATTN_SRC_REFERENCE_ADDITIVE_H
#define CLATTN_SRC_REFERENCE_ADDITIVE_H

#include "../additive_problem.h"

clattn_status reference_additive(const struct additive_problem *problem,
                                 const struct additive_call *call);

#endif
