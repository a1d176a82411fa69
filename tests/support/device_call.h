/* Runs a test's call through plan and enqueue, with whole arrays in device buffers: poison between the
 * elements, a workspace full of NaN. */
#ifndef CLATTN_TESTS_SUPPORT_DEVICE_CALL_H
#define CLATTN_TESTS_SUPPORT_DEVICE_CALL_H

#include "test_call.h"

/* Waits for the result and copies the output arrays back, gaps included. The problem's strategy is what
 * test->problem says; `used` (may be NULL) receives the name of the one that ran, of 32 bytes. */
clattn_status device_call_run(clattn_context *context, struct test_call *test, char *used);

/* Runs through the blocking call on the test's own memory. */
clattn_status device_call_run_blocking(clattn_context *context, struct test_call *test);

#endif
