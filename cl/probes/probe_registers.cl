/* Probe of the register file that the runtime compiles for, which may be less than an x86 CPU has: a product of 4 x 32
 * and 32 x 16, whose columns are the lanes. Where the registers are smaller there is no such kernel, rather than an
 * error, which PoCL would print. Compilers that say nothing of the CPU (SPIR comes in between) take what it has, as far
 * as their options say.
 *
 * -D NEEDS: AVX2, AVX512 or NEON. */
#include "vector/lanes.clh"

#define AVX2 1
#define AVX512 2
#define NEON 3

#ifndef NEEDS
#define NEEDS AVX2
#endif

#if !defined(__x86_64__)
#define HAS_REGISTERS 1
#elif NEEDS == AVX2
#define HAS_REGISTERS (defined(__AVX2__) && defined(__FMA__))
#else
#define HAS_REGISTERS defined(__AVX512F__)
#endif

#define ROWS 4
#define SUMMED 32

#if HAS_REGISTERS
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
probe_product(__global const float *a, __global const float *b, __global float *product)
{
    for (int m = 0; m < ROWS; ++m) {
        float16 sum = 0.0f;
        for (int k = 0; k < SUMMED; ++k) {
            sum = fma((float16)a[m * SUMMED + k], vload16(k, b), sum);
        }
        vstore16(sum, m, product);
    }
}
#else
__kernel void smaller_registers(__global float *product)
{
    product[0] = 0.0f;
}
#endif
