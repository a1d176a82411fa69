/* Probe of AVX512-BF16: a product of 4 x 32 and 32 x 16, whose columns are the lanes; and its speed beside
 * that of multiply-adds, on the same work: each dot product of pairs does two. */
/* A compiler that is held to shorter registers finds no kernel here, and nothing to complain of. */
#if defined(__AVX512F__) || !defined(__x86_64__)
#include "x86/bf16.clh"

#define ROWS 4
#define PAIRS 16
#define SUMS 16 /* at once, so that no instruction waits for another's result */

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
probe_product(__global const float *a, __global const float *b, __global float *product)
{
    uint pairs_a[ROWS * PAIRS];
    X86_ASSEMBLY_BEGIN();
    for (int i = 0; i < ROWS * PAIRS; ++i) {
        pairs_a[i] = as_uint(a[2 * i]) >> 16 | (as_uint(a[2 * i + 1]) & 0xffff0000u);
    }
    for (int m = 0; m < ROWS; ++m) {
        float16 sum = 0.0f;
        for (int k = 0; k < PAIRS; ++k) {
            const uint16 low = as_uint16(vload16(2 * k, b)), high = as_uint16(vload16(2 * k + 1, b));
            const uint16 pairs_b = (low >> 16) | (high & 0xffff0000u); /* small integers: nothing to round */
            sum = x86_dot_pairs(sum, (uint16)(pairs_a[m * PAIRS + k]), pairs_b);
        }
        vstore16(sum, m, product);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_speed(__global float *data, int rounds)
{
    float16 sum[SUMS];
    uint16 pair = as_uint16(vload16(0, data)), rows = 0x3f803f80u;
    X86_ASSEMBLY_BEGIN();
    for (int i = 0; i < SUMS; ++i) {
        sum[i] = 0.0f;
    }
    for (int n = 0; n < rounds; ++n) {
        #pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            sum[i] = x86_dot_pairs(sum[i], pair, rows);
        }
    }
    for (int i = 0; i < SUMS; ++i) {
        sum[0] += sum[i];
    }
    vstore16(sum[0], 0, data);
}

/* Assembly too, so that no compiler leaves anything out. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe_rival(__global float *data, int rounds)
{
    float16 sum[SUMS];
    float16 element = vload16(0, data), rows = 1.0f;
    X86_ASSEMBLY_BEGIN();
    for (int i = 0; i < SUMS; ++i) {
        sum[i] = 0.0f;
    }
    for (int n = 0; n < 2 * rounds; ++n) {
        #pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            __asm__("vfmadd231ps %1, %2, %0" : "+v"(sum[i]) : "v"(element), "v"(rows));
        }
    }
    for (int i = 0; i < SUMS; ++i) {
        sum[0] += sum[i];
    }
    vstore16(sum[0], 0, data);
}

#endif
