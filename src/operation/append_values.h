/* Values of append's calls in host memory: where rows go, and whether they may. */
#ifndef CLATTN_SRC_APPEND_VALUES_H
#define CLATTN_SRC_APPEND_VALUES_H

#include "operation/append.h"

/* After operands_check. */
clattn_status append_check_values(const struct append_problem *problem, const struct append_call *call);

#endif
