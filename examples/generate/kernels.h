/* What an engine computes beside attention, as OpenCL C. Sums over columns are added in an order that the number of
 * columns alone decides: a row has the same bits alone and among others. */
#ifndef GENERATE_KERNELS_H
#define GENERATE_KERNELS_H

#define SOURCE(...) #__VA_ARGS__

/* clang-format off */
static const char *const kernel_source = SOURCE(

/* out[row][o] = dot(weights[o], x[row]), added to what is there where `add`: 4 outputs by 4 rows a turn, or by one of
 * those left over, 16 columns at once. Sums of `count` rows, a constant, stay in registers, and a weight is read from
 * memory once for them. */
static inline __attribute__((always_inline)) void
multiply_rows(__global const float16 *weights, __global const float16 *x, __global float *out, int sixteens,
              int outputs, int first, int row, const int count, int add)
{
    __global const float16 *weight[4];
    float16 sum[4][4];
    for (int o = 0; o < 4; ++o) {
        weight[o] = weights + (long)min(first + o, outputs - 1) * sixteens;
        for (int r = 0; r < count; ++r) {
            sum[r][o] = (float16)(0.0f);
        }
    }
    for (int c = 0; c < sixteens; ++c) {
        for (int o = 0; o < 4; ++o) {
            const float16 w = weight[o][c];
            for (int r = 0; r < count; ++r) {
                sum[r][o] = fma(w, x[(long)(row + r) * sixteens + c], sum[r][o]);
            }
        }
    }
    for (int r = 0; r < count; ++r) {
        for (int o = 0; o < 4 && first + o < outputs; ++o) {
            const float8 eight = sum[r][o].lo + sum[r][o].hi;
            const float4 four = eight.lo + eight.hi;
            const float2 two = four.lo + four.hi;
            const long at = (long)(row + r) * outputs + first + o;
            out[at] = (add ? out[at] : 0.0f) + (two.x + two.y);
        }
    }
}

__kernel void multiply(__global const float16 *weights, __global const float16 *x, __global float *out, int sixteens,
                       int outputs, int rows, int add)
{
    const int first = (int)get_global_id(0) * 4;
    if (first >= outputs) {
        return;
    }
    int row = 0;
    for (; row + 4 <= rows; row += 4) {
        multiply_rows(weights, x, out, sixteens, outputs, first, row, 4, add);
    }
    for (; row < rows; ++row) {
        multiply_rows(weights, x, out, sixteens, outputs, first, row, 1, add);
    }
}

/* A row divided by the root of its mean square, times the weights; a work-group a row. */
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void normalise(__global const float *x, __global const float *weights, __global float *out, int columns, float epsilon)
{
    __local float part[64];
    const int lane = (int)get_local_id(0);
    const long row = (long)get_group_id(0) * columns;
    float sum = 0.0f;
    for (int c = lane; c < columns; c += 64) {
        sum = fma(x[row + c], x[row + c], sum);
    }
    part[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = 32; half_of > 0; half_of /= 2) {
        if (lane < half_of) {
            part[lane] += part[lane + half_of];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float factor = 1.0f / sqrt(part[0] / (float)columns + epsilon);
    for (int c = lane; c < columns; c += 64) {
        out[row + c] = x[row + c] * factor * weights[c];
    }
}

/* gate = gate / (1 + exp(-gate)) * up, element by element. */
__kernel void gate_up(__global float *gate, __global const float *up)
{
    const size_t i = get_global_id(0);
    gate[i] = gate[i] / (1.0f + exp(-gate[i])) * up[i];
}

);
/* clang-format on */

#endif
