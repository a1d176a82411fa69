/* A case of tests/cases as a test's call, in any storage type: the case's values rounded to the type, the same
 * masks, parameters and lengths. Without the weights output, which says nothing about out and which fused
 * strategies do not have. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_CALL_H
#define CLATTN_TESTS_SUPPORT_CASE_CALL_H

#include "../../tools/failure.h"
#include "test_call.h"

/* Placed, filled, validated; free it with test_call_free. On failure (-1) there is nothing to free. */
int case_call_create(struct test_call *test, const char *folder, clattn_type type, struct failure *failure);

#endif
