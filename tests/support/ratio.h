/* R: the errors of a call's out over those of the plain pipeline in the same type (support/naive.h), which stores
 * scores and weights. Judged for 16-bit types:
 *
 *     where weights meet the values as accurate as the sums     in each call, largest error <= largest of the
 *                                                               plain pipeline
 *     where they are rounded to the type first                  over many calls, the mean of the ratios of root
 *                                                               mean squares <= 1
 *
 * The first holds for whatever computes in float32 and rounds once; a result that lies in the middle of two
 * numbers may fall to either, so twice the float32 error (C = 1 of support/tolerance.h) is excused. In the
 * second, single calls depend on luck: rounded weights have as many bits as those of the plain pipeline, and
 * only its scores are rounded on top. Called by judge.c. */
#ifndef CLATTN_TESTS_SUPPORT_RATIO_H
#define CLATTN_TESTS_SUPPORT_RATIO_H

#include "tolerance.h"

#define RATIO_MANY_CALLS 30

/* Of the plain pipeline, over the outputs of a call whose reference is finite. */
struct plain_errors {
    double largest, square_sum;
};
void plain_errors_measure(const struct test_call *test, const struct expected *expected,
                          struct plain_errors *plain);

struct ratio {
    int says_something;     /* 0: the plain pipeline has next to no error, and nothing was judged by it */
    double largest, square; /* of the largest errors; of their root mean squares */
    char wrong[160];        /* why the ratio is too large; "" */
};
void ratio_check(const struct test_call *test, const struct expected *expected,
                 const struct plain_errors *plain, struct ratio *ratio);

/* What a run has come to. */
struct ratio_figures {
    double worst, worst_square, sum, square_sum;
    int64_t calls;
};
void ratio_count(struct ratio_figures *figures, const struct ratio *ratio);

/* Whether the mean of many calls is too large. */
int ratio_is_too_large(const struct ratio_figures *figures);

#endif
