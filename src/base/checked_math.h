/* 64-bit arithmetic that says when it does not fit; and groups. */
#ifndef CLATTN_SRC_CHECKED_MATH_H
#define CLATTN_SRC_CHECKED_MATH_H

#include <stdint.h>

static inline int checked_add(int64_t a, int64_t b, int64_t *sum)
{
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) {
        return 0;
    }
    *sum = a + b;
    return 1;
}

static inline int fits_32_bits(int64_t a)
{
    return a >= INT32_MIN && a <= INT32_MAX;
}

static inline int checked_multiply(int64_t a, int64_t b, int64_t *product)
{
    if ((fits_32_bits(a) && fits_32_bits(b)) || a == 0 || b == 0) { /* as nearly always: without a division */
        *product = a * b;
        return 1;
    }
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN)) {
        return 0;
    }
    if (a != -1 && b != -1) {
        int64_t limit = (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
        int64_t most = limit / b; /* how far a may go on its own side of 0 */
        if (a > 0 ? a > most : a < most) {
            return 0;
        }
    }
    *product = a * b;
    return 1;
}

/* Blocks of `size` that hold `count`; and what those hold. */
static inline int64_t ceil_div(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static inline int64_t round_up(int64_t count, int64_t size)
{
    return ceil_div(count, size) * size;
}

/* Groups of `share` of so many; share 0: all are one group, where there are any. */
static inline int64_t groups_of(int64_t count, int64_t share)
{
    return share > 0 ? ceil_div(count, share) : count > 0;
}

#endif
