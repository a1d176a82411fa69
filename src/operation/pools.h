/* Pools of keys and values that are made of several buffers: page n of the table is page n % pool_pages of buffer
 * n / pool_pages. */
#ifndef CLATTN_SRC_POOLS_H
#define CLATTN_SRC_POOLS_H

#include "cl/forward/forward_params.h"
#include "operation/problem.h"

/* How many buffers `pages` pages take; 1 where there are none. */
int pools_count(int64_t pages, int64_t pool_pages);

/* How many pages buffer `pool` has; 0 behind the last. */
int64_t pools_pages(int64_t pages, int64_t pool_pages, int pool);

/* The rule on both, which are numbers that kernels can hold. */
clattn_status pools_check(int64_t pages, int64_t pool_pages);

static inline int pools_of(const clattn_problem *p)
{
    return pools_count(p->pages, p->pool_pages);
}

/* Kernels know strides of the first buffer only. */
clattn_status pools_check_places(const struct any_problem *problem, const struct operands *operands);

/* Refuses pools in a public struct, for devices or hosts, where the operation knows of none and would ignore them. */
clattn_status pools_refuse(const void *tensors, int on_host);

/* What kernels are told of a checked call. */
void pools_fill(const clattn_problem *problem, const struct operands *operands, clattn_pools *pools);

/* Which buffer has a page of the pool. *page becomes its number there. */
int pools_find(int64_t pool_pages, int64_t *page);

/* The tensor, TENSOR_KEY or one behind it, that has a page of the keys; likewise of values. *page likewise. */
int pools_tensor_of(const clattn_problem *problem, enum tensor_id first, int64_t *page);

#endif
