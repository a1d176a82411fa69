/* Values of append's calls in host memory: where rows go, and whether they may. */
#ifndef CLATTN_SRC_APPEND_VALUES_H
#define CLATTN_SRC_APPEND_VALUES_H

#include "operation/append.h"

/* What operation_append.check_values is. */
clattn_status append_check_values(const struct any_problem *problem, const struct operands *call);

#endif
