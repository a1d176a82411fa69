/* R: the errors of a call's out over those of the plain pipeline in the same type (support/naive.h), which stores
 * scores and weights. For 16-bit types each call's largest error must not be larger than the plain pipeline's, as
 * holds for whatever computes in float32 and rounds once. A result that lies in the middle of two numbers may fall
 * to either, so twice the float32 error (C = 1 of support/tolerance.h) is excused. */
#ifndef CLATTN_TESTS_SUPPORT_RATIO_H
#define CLATTN_TESTS_SUPPORT_RATIO_H

#include "tolerance.h"

/* The plain pipeline's, over the outputs of a call whose reference is finite. */
double plain_largest_error(const struct test_call *test, const struct expected *expected);

struct ratio {
    int says_something; /* 0: the plain pipeline has next to no error, and nothing was judged by it */
    double largest;     /* of the largest errors */
    char wrong[160];    /* why the ratio is too large; "" */
};
void ratio_check(const struct test_call *test, const struct expected *expected, double plain_largest,
                 struct ratio *ratio);

/* What a run has come to. */
struct ratio_figures {
    double worst, sum;
    int64_t calls;
};
void ratio_count(struct ratio_figures *figures, const struct ratio *ratio);

#endif
