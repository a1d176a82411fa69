/* Numbers of a random call at the ends of their ranges. */
#ifndef CLATTN_TESTS_SUPPORT_RANDOM_ENDS_H
#define CLATTN_TESTS_SUPPORT_RANDOM_ENDS_H

#include "random_call.h"

/* In place of what is there: of biases, sinks, slopes, the scale or logits; share, in [0, 1), says which. */
void random_ends_put(struct random *random, struct test_call *test, double share);

#endif
