/* Features that every problem of a run shall have, over those that chance gives it: so that a rare one is tried at
 * once. */
#ifndef CLATTN_TESTS_SUPPORT_RANDOM_FEATURES_H
#define CLATTN_TESTS_SUPPORT_RANDOM_FEATURES_H

#include "clattn.h"
#include "random.h"

/* `names`: "window,pages,bottom", of those that random_features.c lists; NULL or "": none. -1: a name is none. */
int random_features_known(const char *names);

/* A mask that hides by position is narrow enough to hide something. */
void random_features_add(const char *names, uint64_t seed, uint64_t index, clattn_problem *p);

/* Slopes and sinks of a float64 problem are in float64, or in float32. */
void random_head_types(uint64_t seed, uint64_t index, clattn_problem *p);

/* Which keys mask and bias are of: all, the first ones, the last ones, or some between. */
void random_masked_keys(struct random *random, const clattn_problem *p, clattn_call *call);

#endif
