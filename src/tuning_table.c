/* The tuning table: one line a tile. For one strategy and class, small head dims first; within a head
 * dim, the best first and smaller tiles for small devices after it. */
#include <limits.h>

#include "tuning.h"

const struct tuning_row tuning_table[] = {
    /* strategy      class       head_dim  rows keys score mix items */
    { "fused_simt", DEVICE_GPU, INT_MAX, { 64, 64, 4, 8, 256 } },
    { "fused_simt", DEVICE_GPU, INT_MAX, { 32, 32, 4, 8, 64 } },
    { "fused_simt", DEVICE_GPU, INT_MAX, { 16, 16, 4, 16, 16 } },

    /* score: head dims up to this keep their queries in registers; mix: output columns a work-group */
    { "fused_mma nvidia", DEVICE_GPU, 128, { 64, 64, 128, 128, 128 } },
    { "fused_mma nvidia", DEVICE_GPU, INT_MAX, { 64, 32, 256, 128, 128 } },
    { "fused_mma intel 16", DEVICE_GPU, INT_MAX, { 64, 32, 0, 64, 64 } },
    { "fused_mma intel 8", DEVICE_GPU, INT_MAX, { 64, 32, 0, 64, 64 } },
    { "fused_mma wmma 12", DEVICE_GPU, 128, { 64, 64, 128, 128, 128 } },
    { "fused_mma wmma 12", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 128 } },
    { "fused_mma wmma 11", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 128 } },
    { "fused_mma mfma", DEVICE_GPU, INT_MAX, { 64, 32, 128, 128, 256 } },
    { "fused_mma emulated", DEVICE_GPU, INT_MAX, { 64, 32, 96, 128, 64 } },
    { "fused_mma emulated", DEVICE_GPU, INT_MAX, { 32, 16, 0, 64, 32 } },
};

const size_t tuning_row_count = sizeof(tuning_table) / sizeof(tuning_table[0]);
