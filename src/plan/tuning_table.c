/* The tuning table: one line a tile. For one strategy and class, small head dims first; within a head
 * dim, the best first and smaller tiles for small devices after it. Strategy staged has a table of its own
 * (staged_tiles.c): its tiles are those of a matrix product. */
#include <limits.h>

#include "plan/tuning.h"

/* The fields that a strategy's tiles have, in the order of its rows below. */
/* clang-format off */
#define SIMT(rows_, keys_, work_items_, item_keys_, item_columns_)                                     \
    { .rows = rows_, .keys = keys_, .work_items = work_items_, .item_keys = item_keys_, .item_columns = item_columns_ }
#define SIMD(rows_, keys_, item_keys_, item_columns_, speed_)                                          \
    { .rows = rows_, .keys = keys_, .work_items = 1, .item_keys = item_keys_, .item_columns = item_columns_,    \
      .speed = speed_ }
#define MMA(rows_, keys_, work_items_, register_depth_, group_columns_)                                \
    { .rows = rows_, .keys = keys_, .work_items = work_items_, .register_depth = register_depth_,      \
      .group_columns = group_columns_ }
/* clang-format on */

/* Strategy, class, head dims up to, tile. */
const struct tuning_row tuning_table[] = {
    /* The first has fewer reads of local memory a product, and the next stage loaded ahead, for half as many warps a
     * core as the second: an H100 reaches 51 % of its multiply-adds by it at head dims 64 and 128, 34 % by that. */
    { "fused_simt ahead", DEVICE_GPU, INT_MAX, SIMT(64, 64, 128, 8, 16) },
    { "fused_simt ahead", DEVICE_GPU, INT_MAX, SIMT(64, 64, 256, 4, 8) },
    { "fused_simt ahead", DEVICE_GPU, INT_MAX, SIMT(32, 32, 64, 4, 8) },
    { "fused_simt ahead", DEVICE_GPU, INT_MAX, SIMT(16, 16, 16, 4, 16) },
    /* AMD's: as few reads of local memory a product as registers allow; bounded at 76 and 71 % of MI200's
     * multiply-adds, at 75 and 71 % of RX 7900's, where NVIDIA's first row has 59 and 66 %. */
    { "fused_simt ahead amd", DEVICE_GPU, 64, SIMT(128, 64, 128, 8, 8) },
    { "fused_simt ahead amd", DEVICE_GPU, INT_MAX, SIMT(64, 64, 128, 4, 8) },
    { "fused_simt ahead amd", DEVICE_GPU, INT_MAX, SIMT(32, 32, 64, 4, 8) },
    { "fused_simt ahead amd", DEVICE_GPU, INT_MAX, SIMT(16, 16, 16, 4, 16) },
    { "fused_simt", DEVICE_GPU, INT_MAX, SIMT(64, 64, 256, 4, 8) },
    { "fused_simt", DEVICE_GPU, INT_MAX, SIMT(32, 32, 64, 4, 8) },
    { "fused_simt", DEVICE_GPU, INT_MAX, SIMT(16, 16, 16, 4, 16) },
    /* Squares: rows and keys change places. */
    { "fused_simt gradients", DEVICE_GPU, INT_MAX, SIMT(64, 64, 256, 4, 8) },
    { "fused_simt gradients", DEVICE_GPU, INT_MAX, SIMT(64, 64, 256, 4, 4) },
    { "fused_simt gradients", DEVICE_GPU, INT_MAX, SIMT(32, 32, 64, 4, 8) },
    { "fused_simt gradients", DEVICE_GPU, INT_MAX, SIMT(16, 16, 16, 4, 8) },
    /* float64 takes two registers a number: half of the rows. */
    { "fused_simt double", DEVICE_GPU, INT_MAX, SIMT(32, 64, 256, 4, 8) },
    { "fused_simt double", DEVICE_GPU, INT_MAX, SIMT(16, 32, 64, 4, 8) },
    { "fused_simt double", DEVICE_GPU, INT_MAX, SIMT(8, 16, 16, 4, 16) },

    /* By the register file (plan/register_file.h). rows: vectors of 16, each as many registers as it needs, r; with
     * r * item_keys + r + 1 at most all registers, but where an instruction multiplies what lies in memory: there a key
     * broadcast once for 32 rows takes a ninth fewer instructions than two keys for 16. keys: one number for all tiles
     * of a product, since it decides bits: a multiple of all item_keys. */
    { "fused_simd fma 16 of 4", DEVICE_CPU, INT_MAX, SIMD(16, 96, 2, 2, 0.97) },
    { "fused_simd fma 16 of 4", DEVICE_CPU, INT_MAX, SIMD(32, 96, 1, 2, 1.0) },
    { "fused_simd fma 32 of 4", DEVICE_CPU, INT_MAX, SIMD(16, 96, 6, 6, 1.0) },
    { "fused_simd fma 16 of 8", DEVICE_CPU, INT_MAX, SIMD(16, 96, 6, 6, 1.0) },
    { "fused_simd fma 32 of 16", DEVICE_CPU, INT_MAX, SIMD(16, 96, 8, 16, 0.82) },
    { "fused_simd fma 32 of 16", DEVICE_CPU, INT_MAX, SIMD(32, 96, 8, 8, 1.0) },
    { "fused_simd dot", DEVICE_CPU, INT_MAX, SIMD(16, 128, 8, 16, 0.82) },
    { "fused_simd dot", DEVICE_CPU, INT_MAX, SIMD(32, 128, 8, 8, 1.0) },
    /* Two vectors of rows, so that what stands between the products of tiles stays in the first cache; what is read of
     * memory is shared by tiles. */
    { "fused_amx", DEVICE_CPU, INT_MAX, SIMD(32, 64, 2, 0, 1.0) },

    /* Rows by registers: 65,536 for 128 work-items of each 64 rows. Tiles of keys by the ring, five places of 8 KiB. */
    { "fused_wgmma", DEVICE_GPU, 64, MMA(256, 64, 512, 64, 64) },
    { "fused_wgmma", DEVICE_GPU, 80, MMA(256, 32, 512, 80, 80) },
    { "fused_wgmma", DEVICE_GPU, 128, MMA(192, 32, 384, 128, 128) },
    { "fused_wgmma", DEVICE_GPU, INT_MAX, MMA(128, 32, 256, 256, 256) },
    { "fused_wgmma wide", DEVICE_GPU, 64, MMA(192, 64, 384, 64, 64) },
    { "fused_wgmma wide", DEVICE_GPU, 80, MMA(192, 32, 384, 80, 80) },
    { "fused_wgmma wide", DEVICE_GPU, INT_MAX, MMA(128, 32, 256, 256, 256) },
    { "fused_wgmma emulated", DEVICE_GPU, 64, MMA(64, 64, 128, 64, 64) },
    { "fused_wgmma emulated", DEVICE_GPU, 96, MMA(128, 32, 256, 96, 96) },
    { "fused_wgmma emulated", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 256, 256) },
    { "fused_mma nvidia many", DEVICE_GPU, 64, MMA(128, 64, 128, 64, 128) },
    { "fused_mma nvidia", DEVICE_GPU, 128, MMA(64, 64, 128, 128, 128) },
    { "fused_mma nvidia", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 256, 128) },
    { "fused_mma nvidia 75", DEVICE_GPU, 64, MMA(64, 64, 128, 0, 128) },
    { "fused_mma nvidia 75", DEVICE_GPU, 128, MMA(64, 64, 128, 128, 128) },
    { "fused_mma nvidia 75", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 256, 128) },
    { "fused_mma nvidia 70", DEVICE_GPU, 64, MMA(64, 64, 128, 64, 128) },
    { "fused_mma nvidia 70", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 128, 128) },
    { "fused_mma nvidia tf32", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 128, 128) },
    { "fused_mma nvidia tf32", DEVICE_GPU, INT_MAX, MMA(32, 16, 64, 0, 64) },
    { "fused_mma intel 16", DEVICE_GPU, INT_MAX, MMA(64, 32, 64, 0, 64) },
    { "fused_mma intel 8", DEVICE_GPU, INT_MAX, MMA(64, 32, 64, 0, 64) },
    { "fused_mma wmma 12", DEVICE_GPU, 128, MMA(64, 64, 128, 128, 128) },
    { "fused_mma wmma 12", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 128, 128) },
    { "fused_mma wmma 11", DEVICE_GPU, INT_MAX, MMA(64, 32, 128, 128, 128) },
    { "fused_mma mfma", DEVICE_GPU, INT_MAX, MMA(64, 32, 256, 128, 128) },
    { "fused_mma nvidia gradients", DEVICE_GPU, 64, MMA(64, 64, 128, 0, 64) },
    { "fused_mma nvidia gradients", DEVICE_GPU, 128, MMA(64, 32, 128, 0, 128) },
    { "fused_wgmma gradients", DEVICE_GPU, 64, MMA(64, 64, 128, 0, 64) },
    { "fused_wgmma gradients", DEVICE_GPU, 128, MMA(64, 32, 128, 0, 128) },
    { "fused_wgmma emulated gradients", DEVICE_GPU, 128, MMA(64, 32, 128, 0, 128) },
    { "fused_mma nvidia 75 gradients", DEVICE_GPU, 128, MMA(64, 32, 128, 0, 128) },
    { "fused_mma nvidia 70 gradients", DEVICE_GPU, 128, MMA(64, 32, 128, 0, 128) },
    { "fused_mma wmma 12 gradients", DEVICE_GPU, 128, MMA(64, 32, 128, 0, 128) },
    { "fused_mma wmma 11 gradients", DEVICE_GPU, 64, MMA(64, 32, 128, 0, 128) },
    { "fused_mma mfma gradients", DEVICE_GPU, 128, MMA(64, 32, 256, 0, 128) },
    { "fused_mma emulated gradients", DEVICE_GPU, 128, MMA(64, 32, 64, 0, 128) },
    { "fused_mma emulated many", DEVICE_GPU, 64, MMA(128, 32, 64, 64, 128) },
    { "fused_mma emulated", DEVICE_GPU, INT_MAX, MMA(64, 32, 64, 96, 128) },
    { "fused_mma emulated", DEVICE_GPU, INT_MAX, MMA(32, 16, 32, 0, 64) },
};

const size_t tuning_row_count = sizeof(tuning_table) / sizeof(tuning_table[0]);
