/* Additive attention in float64, row by row: the definition of what is right. */
#ifndef CLATTN_SRC_REFERENCE_ADDITIVE_H
#define CLATTN_SRC_REFERENCE_ADDITIVE_H

#include "operation/additive.h"

/* Whether row i of batch entry b may see key j. */
int additive_is_allowed(const struct additive_problem *problem, const struct operands *operands, int64_t b, int64_t i,
                        int64_t j);

#endif
