/* Rotary, append and sums of weights as small as they come, with memory of their own, for tests of what any enqueued
 * call must keep to. */
#ifndef CLATTN_TESTS_SUPPORT_SMALL_CACHE_H
#define CLATTN_TESTS_SUPPORT_SMALL_CACHE_H

#include "clattn_cache.h"

struct small_cache {
    clattn_plan *rotary, *append, *block_mask, *key_sums;
    cl_mem zeros, results[3]; /* numbers and positions; what is written */
};

clattn_status small_cache_plans(clattn_context *context, clattn_plan **rotary, clattn_plan **append);

/* 0: something failed, see clattn_last_error. What there is, small_cache_release gives back. */
int small_cache_create(struct small_cache *cache, clattn_context *context);
void small_cache_release(struct small_cache *cache);

clattn_status small_cache_rotary(const struct small_cache *cache, cl_command_queue queue, cl_event *done);
/* What blocks of a mask text are. */
clattn_status small_cache_block_mask(const struct small_cache *cache, cl_command_queue queue, cl_event *done);

/* Both outputs, by three kernels. */
clattn_status small_cache_key_sums(const struct small_cache *cache, cl_command_queue queue, cl_event *done);

clattn_status small_cache_append(const struct small_cache *cache, cl_command_queue queue, cl_event *done);

#endif
