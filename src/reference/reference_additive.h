/* Additive attention in float64 on the CPU. */
#ifndef CLATTN_SRC_REFERENCE_ADDITIVE_H
#define CLATTN_SRC_REFERENCE_ADDITIVE_H

#include "operation/additive.h"

clattn_status reference_additive(const struct additive_problem *problem, const struct operands *operands);

#endif
