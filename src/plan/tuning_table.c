/* The tuning table: one line a tile. For one strategy and class, small head dims first; within a head
 * dim, the best first and smaller tiles for small devices after it. Strategy staged has a table of its own
 * (staged_tiles.c): its tiles are those of a matrix product. */
#include <limits.h>

#include "plan/tuning.h"

const struct tuning_row tuning_table[] = {
    /* strategy      class       head_dim  rows keys score mix items speed */
    { "fused_simt", DEVICE_GPU, INT_MAX, { 64, 64, 4, 8, 256, 0 } },
    { "fused_simt", DEVICE_GPU, INT_MAX, { 32, 32, 4, 8, 64, 0 } },
    { "fused_simt", DEVICE_GPU, INT_MAX, { 16, 16, 4, 16, 16, 0 } },
    /* float64 takes two registers a number: half of the rows. */
    { "fused_simt double", DEVICE_GPU, INT_MAX, { 32, 64, 4, 8, 256, 0 } },
    { "fused_simt double", DEVICE_GPU, INT_MAX, { 16, 32, 4, 8, 64, 0 } },
    { "fused_simt double", DEVICE_GPU, INT_MAX, { 8, 16, 4, 16, 16, 0 } },

    /* Measured on two AVX-512 cores under PoCL. rows: vectors of 16; score: keys at once, with vectors * score +
     * vectors + 1 <= 32 registers; keys: one number for all tiles of a product, since it decides bits. */
    { "fused_simd fma", DEVICE_CPU, INT_MAX, { 16, 128, 8, 16, 1, 0.82 } },
    { "fused_simd fma", DEVICE_CPU, INT_MAX, { 32, 128, 8, 8, 1, 1.0 } },
    { "fused_simd dot", DEVICE_CPU, INT_MAX, { 16, 128, 8, 16, 1, 0.82 } },
    { "fused_simd dot", DEVICE_CPU, INT_MAX, { 32, 128, 8, 8, 1, 1.0 } },
    /* Estimated: no such unit was at hand. score: keys at once in the softmax; mix: always four tiles. */
    { "fused_amx", DEVICE_CPU, INT_MAX, { 32, 64, 4, 0, 1, 0.8 } },
    { "fused_amx", DEVICE_CPU, INT_MAX, { 64, 64, 4, 0, 1, 0.9 } },
    { "fused_amx", DEVICE_CPU, INT_MAX, { 128, 64, 2, 0, 1, 1.0 } },

    /* score: head dims up to this keep their queries in registers; mix: output columns a work-group */
    { "fused_mma nvidia", DEVICE_GPU, 128, { 64, 64, 128, 128, 128, 0 } },
    { "fused_mma nvidia", DEVICE_GPU, INT_MAX, { 64, 32, 256, 128, 128, 0 } },
    { "fused_mma nvidia 70", DEVICE_GPU, 64, { 64, 64, 64, 128, 128, 0 } },
    { "fused_mma nvidia 70", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 128, 0 } },
    { "fused_mma nvidia tf32", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 128, 0 } },
    { "fused_mma nvidia tf32", DEVICE_GPU, INT_MAX, { 32, 16, 0, 64, 64, 0 } },
    { "fused_mma intel 16", DEVICE_GPU, INT_MAX, { 64, 32, 0, 64, 64, 0 } },
    { "fused_mma intel 8", DEVICE_GPU, INT_MAX, { 64, 32, 0, 64, 64, 0 } },
    { "fused_mma wmma 12", DEVICE_GPU, 128, { 64, 64, 128, 128, 128, 0 } },
    { "fused_mma wmma 12", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 128, 0 } },
    { "fused_mma wmma 11", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 128, 0 } },
    { "fused_mma mfma", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 256, 0 } },
    { "fused_mma emulated", DEVICE_GPU, INT_MAX, { 64, 32, 96, 128, 64, 0 } },
    { "fused_mma emulated", DEVICE_GPU, INT_MAX, { 32, 16, 0, 64, 32, 0 } },
};

const size_t tuning_row_count = sizeof(tuning_table) / sizeof(tuning_table[0]);
