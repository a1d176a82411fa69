/* ALiBi (Press et al., 2021): the standard slopes, which is the body of clattn_alibi_slopes, and what a slope adds. */
#ifndef CLATTN_SRC_ALIBI_H
#define CLATTN_SRC_ALIBI_H

#include <stdint.h>

/* Fills slopes[0 .. heads - 1], heads >= 0. */
void alibi_slopes(int64_t heads, float *slopes);

/* What is taken off the score of a pair that is so far apart. A slope beyond 2^95 counts as that, in kernels too
 * (slope_of in cl/forward/epilogue.clh): the product stays in the range of float32 for every distance. */
long double alibi_of(double slope, int64_t distance);

#endif
