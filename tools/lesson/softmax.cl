/* lesson_softmax: softmax of rows of scores in three forms, every step rounded to the storage type, for the
 * lesson on stability. Not used by any strategy: the naive form is here to fail.
 *
 *     scores [rows][columns]      weights [rows][columns]      one work-item a row
 *
 *     FORM 0, naive       exp(x_j) / sum exp(x_l)
 *     FORM 1, maximum     exp(x_j - m) / sum exp(x_l - m),  m = max x_l: two passes before the division
 *     FORM 2, online      the same in one pass: the sum is rescaled when the maximum moves */
#include "common/types.clh"

#ifndef FORM
#define FORM 0
#endif

static inline float rounded(float value)
{
#if TYPE == CLATTN_CL_FLOAT16
    ushort bits;
    vstore_half_rte(value, 0, (half *)&bits);
    return vload_half(0, (const half *)&bits);
#elif TYPE == CLATTN_CL_BFLOAT16
    return bfloat16_to_float(bfloat16_from_float(value));
#else
    return value;
#endif
}

__kernel void lesson_softmax(const int columns, __global const float *scores, __global float *weights)
{
    __global const float *row = scores + get_global_id(0) * columns;
    __global float *out = weights + get_global_id(0) * columns;
    float maximum = FORM == 0 ? 0.0f : -INFINITY, sum = 0;
#if FORM == 1
    for (int j = 0; j < columns; ++j) {
        maximum = fmax(maximum, rounded(row[j]));
    }
#endif
    for (int j = 0; j < columns; ++j) {
        const float score = rounded(row[j]);
#if FORM == 2
        if (score > maximum) {
            sum = rounded(sum * rounded(exp(rounded(maximum - score))));
            maximum = score;
        }
#endif
        sum = rounded(sum + rounded(exp(rounded(score - maximum))));
    }
    for (int j = 0; j < columns; ++j) {
        out[j] = rounded(rounded(exp(rounded(rounded(row[j]) - maximum))) / sum);
    }
}
