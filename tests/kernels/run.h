/* Runs one attention kernel by itself on a test's call: whole arrays in device buffers, a score matrix that
 * the test fills and reads. */
#ifndef CLATTN_TESTS_KERNELS_RUN_H
#define CLATTN_TESTS_KERNELS_RUN_H

#include "cl/staged/staged_params.h"
#include "plan/attention_arguments.h"
#include "program/context.h"
#include "support/test_call.h"

/* One kernel on one call. Everything is owned. */
struct kernel_run {
    clattn_context *context;
    struct test_call *test;
    struct call call;             /* test->call, in buffers */
    struct attention_given given; /* of programs that take all groups of tensors */
    cl_mem buffers[TENSOR_COUNT], scores_buffer;
    staged_chunk chunk;
    void *scores; /* chunk.planes * chunk.plane_stride elements, as the device has them */
    int64_t score_count;
    int is_double;
};

/* Takes a random part of the call's rows for the chunk and fills the scores with NaN. 0: the call has no
 * rows or no keys. `test` must be validated and outlive the run. */
int kernel_run_begin(struct kernel_run *run, clattn_context *context, struct test_call *test, struct random *random);
void kernel_run_end(struct kernel_run *run);

/* Index of a score in `scores`; plane and row count within the call. */
int64_t score_index(const struct kernel_run *run, int64_t plane, int64_t i, int64_t j);
double score_get(const struct kernel_run *run, int64_t index);
void score_set(struct kernel_run *run, int64_t index, double value);
void score_hide_logit(struct kernel_run *run, int64_t index); /* HIDDEN_LOGIT of cl/pair/hidden.clh */
int score_is_hidden_logit(const struct kernel_run *run, int64_t index);

/* Uploads scores and arrays, launches, waits, downloads scores and output arrays. */
clattn_status kernel_run_launch(struct kernel_run *run, struct kernel *kernel, const size_t global[3],
                                const size_t local[3]);

#endif
