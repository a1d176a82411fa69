/* Layouts and values of a random call. */
#ifndef CLATTN_TESTS_SUPPORT_RANDOM_VALUES_H
#define CLATTN_TESTS_SUPPORT_RANDOM_VALUES_H

#include "random_call.h"

/* Places every tensor: any order of axes, gaps of poison, broadcast, reversed, packed QKV. */
void random_layouts(struct random *random, struct test_call *test);

/* Fills every input but the seams, which must be there. */
enum value_family random_values(struct random *random, struct test_call *test);

/* Makes keys and values that no row may see NaN or infinite. */
void poison_hidden_keys(struct random *random, struct test_call *test);

/* Puts a few NaN and infinities where rows do see them. */
void spoil_some(struct random *random, struct test_call *test);

#endif
