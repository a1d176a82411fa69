/* Random lists of keys. */
#ifndef CLATTN_TESTS_SUPPORT_LISTED_KEYS_H
#define CLATTN_TESTS_SUPPORT_LISTED_KEYS_H

#include "random.h"

/* A test_value; context: an int64_t, how many keys there are. No key stands twice in a list; some lie behind the keys,
 * and what is behind an end is anything. */
double listed_keys_fill(struct random *random, const int64_t index[4], const void *context);

#endif
