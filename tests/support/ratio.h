/* R: the errors of a call's out over those of the plain pipeline in the same type (support/naive.h), which stores
 * scores and weights. Judged for 16-bit types:
 *
 *     where weights meet the values as accurate as the sums     largest error <= largest of the plain pipeline
 *     where a matrix unit rounds them to the type               root mean square <= that of the plain pipeline
 *
 * The first holds for whatever computes in float32 and rounds once; a result that lies in the middle of two
 * numbers may fall to either, so twice the float32 error (C = 1 of support/tolerance.h) is excused. The second
 * leaves the largest error to luck, as the plain pipeline's is, and is judged where there are outputs enough.
 * Called by random_calls and case_ratios. */
#ifndef CLATTN_TESTS_SUPPORT_RATIO_H
#define CLATTN_TESTS_SUPPORT_RATIO_H

#include "tolerance.h"

#define RATIO_LEAST_OUTPUTS 512

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
    double worst, worst_square, sum;
    int64_t calls;
};
void ratio_count(struct ratio_figures *figures, const struct ratio *ratio);

#endif
