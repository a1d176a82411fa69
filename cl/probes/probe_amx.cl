/* Probe of AMX: a product of 16 x 32 and 32 x 16, one tile instruction. */
#include "x86/amx.clh"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
probe_product(__global const float *a, __global const float *b, __global float *product)
{
    uint tile_a[16 * 16], tile_b[16 * 16]; /* [row][pair], [pair][column] */
    float sum[16 * 16];
    for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 16; ++j) {
            tile_a[i * 16 + j] = as_uint(a[i * 32 + 2 * j]) >> 16 | (as_uint(a[i * 32 + 2 * j + 1]) & 0xffff0000u);
            tile_b[i * 16 + j] = as_uint(b[2 * i * 16 + j]) >> 16 | (as_uint(b[(2 * i + 1) * 16 + j]) & 0xffff0000u);
        }
    }
    x86_tiles_begin();
    X86_TILE_ZERO(0);
    X86_TILE_LOAD(1, tile_a, 64);
    X86_TILE_LOAD(2, tile_b, 64);
    X86_TILE_MULTIPLY(0, 1, 2);
    X86_TILE_STORE(0, sum, 64);
    x86_tiles_end();
    for (int i = 0; i < 16 * 16; ++i) {
        product[i] = sum[i];
    }
}
