/* Cases of the operation append. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_APPEND_H
#define CLATTN_TESTS_SUPPORT_CASE_APPEND_H

#include "case_meta.h"

/* 0, -1 and a failure, or 1: the strategy declines. */
int case_append_solve(const struct case_run *run, struct failure *failure);

#endif
