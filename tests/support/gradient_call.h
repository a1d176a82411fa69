/* One backward call in host memory, for tests: a forward call whose out and lse the reference has computed, dout, dlse
 * and the gradients, each in memory of its own with poison between its elements; run, and held against the reference by
 * the bound of docs/numbers.md. */
#ifndef CLATTN_TESTS_SUPPORT_GRADIENT_CALL_H
#define CLATTN_TESTS_SUPPORT_GRADIENT_CALL_H

#include "reference/reference_backward.h"
#include "test_call.h"

struct gradient_call {
    struct test_call test;
    clattn_backward_problem problem; /* its forward is test.problem; strategy may be changed between runs */
    clattn_host_gradients gradients;
    struct test_array arrays[BACKWARD_TENSOR_COUNT];
    unsigned char *before[BACKWARD_TENSOR_COUNT]; /* what was in a gradient's memory */
    double weight_rounding, sum_roundings;        /* of the plan that ran last (src/plan/strategy.h) */
};

/* For a test whose forward call is placed and filled, without a weights output and with lse: computes out and lse. The
 * problem of `g` is set by then. */
clattn_status gradient_call_start(struct gradient_call *g);

/* As gradient_call_start, but for out and lse, which the test puts in place by itself. */
void gradient_call_begin(struct gradient_call *g);
void gradient_call_free(struct gradient_call *g);

int gradient_call_has(const struct gradient_call *g, int id);
void gradient_call_shape(const struct gradient_call *g, int id, int64_t shape[4]);
clattn_host_tensor *gradient_call_tensor(struct gradient_call *g, int id);

/* Memory for a tensor; NULL layout: dense. Then its elements, which are floating-point numbers. */
void gradient_call_place(struct gradient_call *g, int id, const struct test_layout *layout);
void gradient_call_place_all(struct gradient_call *g);
double gradient_call_get(const struct gradient_call *g, int id, int64_t b, int64_t h, int64_t i, int64_t c);
void gradient_call_set(struct gradient_call *g, int id, int64_t b, int64_t h, int64_t i, int64_t c, double value);
void gradient_call_fill(struct gradient_call *g, int id, struct random *random, test_value *value, const void *context);

/* Random places, types, gradients and values for the forward call of g->test. */
clattn_status gradient_call_random(struct gradient_call *g, struct random *random);

/* Gradients are as before each run; `context` NULL: the reference. By plan and enqueue where not `blocks`. */
void gradient_call_keep(struct gradient_call *g);
clattn_status gradient_call_run(clattn_context *context, struct gradient_call *g, int blocks);

/* A hash of all gradients' bits. */
uint64_t gradient_call_hash(const struct gradient_call *g);

struct gradient_verdict {
    int64_t wrong;
    double c[BACKWARD_TENSOR_COUNT]; /* that each gradient needed */
    char first[300];
};

/* What the reference makes of a call; it stays where it is, for its sums point to its call. */
struct gradient_expected {
    struct call call;
    struct backward_detail detail;
};
clattn_status gradient_call_expect(struct gradient_call *g, struct gradient_expected *expected);
void gradient_expected_free(struct gradient_expected *expected);

/* What the last run left, against that of the same call, whatever its strategy. */
void gradient_call_judge(struct gradient_call *g, const struct gradient_expected *expected,
                         struct gradient_verdict *verdict);

/* All three. */
clattn_status gradient_call_check(struct gradient_call *g, struct gradient_verdict *verdict);

#endif
