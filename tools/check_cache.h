/* check.h for what keys and values of caches are: pages, rings, codes with scales, row ranges. */
#ifndef CLATTN_TOOLS_CHECK_CACHE_H
#define CLATTN_TOOLS_CHECK_CACHE_H

#include "check.h"

/* Every row is checked, however many there are. */
int check_cache(const clattn_problem *problem, const clattn_call *values, const clattn_host_tensors *tensors,
                const clattn_plan *plan, struct check *check, struct failure *failure);

#endif
