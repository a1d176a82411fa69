/* What the tests of the public functions share: one context for the whole program, messages compared with
 * what they must say, Check without its fork. */
#ifndef CLATTN_TESTS_API_API_H
#define CLATTN_TESTS_API_API_H

#include <check.h>

#include "clattn.h"

extern clattn_context *context;

/* The status is the expected one and the message contains `text`. */
void expect_error(clattn_status status, clattn_status expected, const char *text, const char *call);

/* CLATTN_OK, or the message is shown. */
#define EXPECT_OK(call) ck_assert_msg((call) == CLATTN_OK, "%s: %s", #call, clattn_last_error())

/* Runs the tests that `add` puts into a case; what main returns. */
int api_main(const char *name, void (*add)(TCase *tests));

#endif
