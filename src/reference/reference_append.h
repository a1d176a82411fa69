/* Append by its definition: rows turned in float64, rounded to float32 where they are quantised. */
#ifndef CLATTN_SRC_REFERENCE_APPEND_H
#define CLATTN_SRC_REFERENCE_APPEND_H

#include "operation/append.h"

/* A call of operation_append. */
clattn_status reference_append(const struct any_problem *problem, const struct operands *call);

#endif
