/* Slopes by the rule of Press et al., "Train Short, Test Long" (2021): a geometric sequence for powers
 * of two, filled up from the sequence of the next power of two otherwise. */
#include "reference/alibi.h"

#include <math.h>

/* Number i of the sequence for `count` heads, a power of two: 2^(-8 (i + 1) / count). */
static float slope_of(int64_t i, int64_t count)
{
    return (float)exp2(-8.0 * (double)(i + 1) / (double)count);
}

void alibi_slopes(int64_t heads, float *slopes)
{
    int64_t power = 1;
    while (power <= heads / 2) {
        power *= 2;
    }
    for (int64_t i = 0; i < heads; ++i) {
        slopes[i] = i < power ? slope_of(i, power) : slope_of(2 * (i - power), 2 * power);
    }
}
