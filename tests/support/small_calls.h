/* Small calls of every class of features, for tests that ask how a call fails, waits or overruns, not how
 * exact it is. */
#ifndef CLATTN_TESTS_SUPPORT_SMALL_CALLS_H
#define CLATTN_TESTS_SUPPORT_SMALL_CALLS_H

#include "test_call.h"

#define SAMPLE_PLAIN_FLOAT32 0 /* no features, float32: every strategy should take it */
#define SAMPLE_MASKED 1        /* causal, mask, lse, grouped heads, float32 */
#define SAMPLE_MASKED_BFLOAT16 2

extern const int sample_count;
const char *sample_name(int index);

/* SAMPLE_MASKED or SAMPLE_MASKED_BFLOAT16, whichever the strategy takes in this context; -1: neither. */
int sample_for(clattn_context *context, const char *strategy);

/* Fills sample `index`: the same values each time. `strategy` NULL: the best. The test frees it with
 * test_call_free. */
void sample_create(struct test_call *test, int index, const char *strategy);

/* Largest difference of two calls of one sample over all their outputs; infinity where only one is NaN
 * or infinite. */
double sample_difference(const struct test_call *a, const struct test_call *b);

/* More than this is not rounding: gross, because the accuracy tests are elsewhere. */
double sample_tolerance(const struct test_call *test);

/* Whether the outputs of two calls of one sample have the same bits. */
int sample_equal(const struct test_call *a, const struct test_call *b);

/* The strategies to test: those that CLATTN_TEST_STRATEGIES names, separated by blanks, else all of the
 * table; "staged/clblast" is staged with CLBlast's matrix multiply. Index 0 on; NULL ends. */
const char *sample_strategy(size_t index);

/* A sample in device memory. */
struct sample_device {
    clattn_call values;
    clattn_tensors tensors;
    cl_mem buffers[TENSOR_COUNT];
    cl_mem workspace;
};

/* Copies inputs, and outputs as poison. 0 on failure, with nothing left behind. */
int sample_upload(struct sample_device *device, const struct test_call *test, cl_context context,
                  size_t workspace_bytes);
/* Waits for the queue and copies outputs back. 0 on failure. */
int sample_download(const struct sample_device *device, struct test_call *test, cl_command_queue queue);
void sample_release(struct sample_device *device);

#endif
