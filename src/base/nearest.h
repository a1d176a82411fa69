/* What is exact to a rounding hangs on the thread's rounding mode, which is the caller's. So exported functions that
 * compute on the host round to nearest until they return, and then put the caller's mode back. */
#ifndef CLATTN_SRC_NEAREST_H
#define CLATTN_SRC_NEAREST_H

#include <fenv.h>

static inline int nearest_begin(void)
{
    const int before = fegetround();
    fesetround(FE_TONEAREST);
    return before;
}

static inline void nearest_end(const int *before)
{
    fesetround(*before);
}

/* The first line of a function: until it returns. */
#define ROUNDED_TO_NEAREST const int nearest_before __attribute__((unused, cleanup(nearest_end))) = nearest_begin()

#endif
