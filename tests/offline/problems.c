/* The table of problems: every kernel of every attention strategy, at the tiles that the strategies choose.
 *
 * A new strategy adds rows here. One that only some devices have names them in `targets`: there it must
 * plan, elsewhere it is not asked. Where a special instruction must be in what the compiler makes of it, a
 * line in tests/offline/instructions says so. A row is for the float types that are given, and float64 is
 * left out on devices without it. */
#include "problems.h"

#define F32 TYPE_BIT(CLATTN_FLOAT32)
#define F64 TYPE_BIT(CLATTN_FLOAT64)
#define HALF TYPE_BIT(CLATTN_FLOAT16)
#define BFLOAT TYPE_BIT(CLATTN_BFLOAT16)
#define F16 (HALF | BFLOAT)

#define MATRIX_UNITS "dg2 pvc gfx90a gfx1100 gfx1200 sm_80 sm_90"
#define MATRIX_UNITS_HALF MATRIX_UNITS " sm_70 sm_75" /* also those without bfloat16 */
#define TF32_UNITS "sm_80 sm_90"

#define SHAPE(rows, dim) SHAPE_OF(rows, 2048, dim)
/* No more keys than a run has (cl/gpu/row_block_layout.h): more ask for totals, in private memory, which is scratch. */
#define ONE_RUN(rows, dim) SHAPE_OF(rows, 512, dim)
#define ONE_RUN_WINDOW(rows, dim, left) SHAPE_WINDOW(rows, 512, dim, left)
#define SHAPE_OF(rows, keys, dim) SHAPE_WINDOW(rows, keys, dim, -1)
#define SHAPE_WINDOW(rows, keys, dim, left)                                                                            \
    .struct_size = sizeof(clattn_problem), .batch = 1, .query_heads = 8, .kv_heads = 8, .query_len = (rows),           \
    .key_len = (keys), .head_dim = (dim), .head_dim_v = (dim), .window_left = (left), .window_right = -1
#define CAUSAL .causal = 1, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT
#define EVERYTHING                                                                                                     \
    CAUSAL, .features = CLATTN_WITH_MASK | CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS, .softcap = 30, .dropout = 0.1,      \
            .bias_type = CLATTN_FLOAT32
/* All that decoding takes: no dropout. */
#define CAUSAL_AND_MORE                                                                                                \
    .causal = 1, .alignment = CLATTN_ALIGN_BOTTOM_RIGHT, .softcap = 30, .bias_type = CLATTN_FLOAT32,                   \
    .features = CLATTN_WITH_MASK | CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS
/* Keys in pages of 16, and these in four buffers. */
#define PAGES .page_size = 16, .pages = 128, .features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS
#define POOLS PAGES, .pool_pages = 32

/* clang-format off */
static const struct problem_row gpu_rows[] = {
    { "any", F32 | F16 | F64, ROW_QUICK, { SHAPE(2048, 64), .strategy = "plain" }, 0 },
    { "any-blocks", F32, ROW_QUICK,
      { SHAPE(2048, 64), .strategy = "plain", .key_type = CLATTN_Q8_0, .value_type = CLATTN_Q4_0 }, 0 },
    { "any-e2m1", F16, 0,
      { SHAPE(2048, 64), .strategy = "plain", .key_type = CLATTN_MXFP4_GGML, .value_type = CLATTN_NVFP4_GGML }, 0 },
    { "any-scales", F16, 0,
      { SHAPE(2048, 64), .strategy = "plain", .key_type = CLATTN_INT8, .value_type = CLATTN_E4M3,
        .features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES }, 0 },

    { "any-zero-points", F16, 0,
      { SHAPE(2048, 64), .strategy = "plain", .key_type = CLATTN_U8, .value_type = CLATTN_NVFP4,
        .features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES, .key_scale_rows = 1 }, 0 },

    /* Score, softmax, mix; with a mask scale_mask too; with CLBlast and something hidden also repair. */
    { "tiles", F32 | F16 | F64, ROW_QUICK,
      { SHAPE(2048, 64), .strategy = "staged", .matmul = CLATTN_MATMUL_TILES,
        .features = CLATTN_WITH_MASK }, 0 },
    { "small", F32 | F16, ROW_SMALL,
      { SHAPE(2048, 64), .strategy = "staged", .matmul = CLATTN_MATMUL_TILES }, 0 },
    { "clblast", F32 | F64, ROW_QUICK,
      { SHAPE(2048, 64), .strategy = "staged", .matmul = CLATTN_MATMUL_CLBLAST,
        .features = CLATTN_WITH_MASK }, 0 },

    { "d64", F32 | F16, ROW_QUICK, { ONE_RUN(2048, 64), .strategy = "fused_simt" }, 0 },
    { "d128", F32 | F16, ROW_QUICK, { ONE_RUN(2048, 128), .strategy = "fused_simt" }, 0 },
    { "d64-causal", F32 | F16, 0, { ONE_RUN(2048, 64), .strategy = "fused_simt", CAUSAL }, 0 },
    { "d128-causal", F32 | F16, 0, { ONE_RUN(2048, 128), .strategy = "fused_simt", CAUSAL }, 0 },
    { "d64-mask", F32, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_simt", .features = CLATTN_WITH_MASK }, 0 },
    { "d128-mask", F32 | F16, 0,
      { ONE_RUN(2048, 128), .strategy = "fused_simt", .features = CLATTN_WITH_MASK }, 0 },
    { "d128-bias", F32, 0,
      { ONE_RUN(2048, 128), .strategy = "fused_simt", CAUSAL, .bias_type = CLATTN_FLOAT32 }, 0 },
    { "d128-varlen", F32, 0,
      { ONE_RUN(2048, 128), .strategy = "fused_simt", CAUSAL, .features = CLATTN_WITH_VARLEN }, 0 },
    { "d64-all", F32 | F16, 0, { ONE_RUN(2048, 64), .strategy = "fused_simt", EVERYTHING }, 0 },
    { "d64-lists", F32 | F16, 0,
      { ONE_RUN(2048, 64), .strategy = "split_simt", .features = CLATTN_WITH_KEY_LISTS, .key_list_rows = 16,
        .key_list_keys = 2048 }, 0 },
    { "d128-all", F32 | F16, ROW_QUICK, { ONE_RUN(2048, 128), .strategy = "fused_simt", EVERYTHING }, 0 },
    { "d128-strided", F32, 0,
      { ONE_RUN(2048, 128), .strategy = "fused_simt", .strided_columns = 1 }, 0 },
    { "d128-pages", F32 | F16, 0, { ONE_RUN(2048, 128), .strategy = "fused_simt", CAUSAL, PAGES }, 0 },
    { "d128-pools", F32 | F16, ROW_QUICK, { ONE_RUN(2048, 128), .strategy = "fused_simt", CAUSAL, POOLS }, 0 },
    { "d64-small", F32 | F64, ROW_SMALL, { ONE_RUN(2048, 64), .strategy = "fused_simt" }, 0 },
    { "d128-small", F32 | F16, ROW_SMALL, { ONE_RUN(2048, 128), .strategy = "fused_simt" }, 0 },
    { "d32", F32, 0, { ONE_RUN(2048, 32), .strategy = "fused_simt" }, 0 },
    { "d96", F32, 0, { ONE_RUN(2048, 96), .strategy = "fused_simt" }, 0 },
    { "d64", F64, ROW_QUICK, { ONE_RUN(2048, 64), .strategy = "fused_simt" }, 0 },
    { "d128", F64, 0, { ONE_RUN(2048, 128), .strategy = "fused_simt" }, 0 },
    { "d128-causal", F64, 0, { ONE_RUN(2048, 128), .strategy = "fused_simt", CAUSAL }, 0 },
    { "d128-all", F64, 0, { ONE_RUN(2048, 128), .strategy = "fused_simt", EVERYTHING }, 0 },

    /* Where null_devices.c has a rung of the ladder for the type. */
    { "d64", HALF, ROW_QUICK, { ONE_RUN(2048, 64), .strategy = "fused_mma" }, MATRIX_UNITS_HALF },
    { "d64", BFLOAT, 0, { ONE_RUN(2048, 64), .strategy = "fused_mma" }, MATRIX_UNITS },
    { "d128", HALF, ROW_QUICK, { ONE_RUN(2048, 128), .strategy = "fused_mma" }, MATRIX_UNITS_HALF },
    { "d128", BFLOAT, 0, { ONE_RUN(2048, 128), .strategy = "fused_mma" }, MATRIX_UNITS },
    { "d64-causal", HALF, 0, { ONE_RUN(2048, 64), .strategy = "fused_mma", CAUSAL }, MATRIX_UNITS_HALF },
    { "d64-many", F16, ROW_QUICK, { ONE_RUN(65536, 64), .strategy = "fused_mma" }, TF32_UNITS },
    { "d64-many-causal", HALF, 0, { ONE_RUN(65536, 64), .strategy = "fused_mma", CAUSAL }, TF32_UNITS },
    { "d64-dropout", HALF, 0, { ONE_RUN(2048, 64), .strategy = "fused_mma", .dropout = 0.1 }, MATRIX_UNITS_HALF },
    { "d128-causal", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_mma", CAUSAL }, MATRIX_UNITS_HALF },
    { "d80", HALF, 0, { ONE_RUN(2048, 80), .strategy = "fused_mma" }, MATRIX_UNITS_HALF },
    { "d64-mask", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_mma", .features = CLATTN_WITH_MASK }, MATRIX_UNITS_HALF },
    { "d64-bias", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_mma", .bias_type = CLATTN_FLOAT32 }, MATRIX_UNITS_HALF },
    { "d64-blocks", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_mma", .features = CLATTN_WITH_BLOCK_MASK, .block_mask_rows = 64,
        .block_mask_keys = 64 }, MATRIX_UNITS_HALF },
    { "d128-all", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_mma", EVERYTHING }, MATRIX_UNITS_HALF },
    { "d128-pages", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_mma", CAUSAL, PAGES }, MATRIX_UNITS_HALF },
    { "d128-pools", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_mma", CAUSAL, POOLS }, MATRIX_UNITS_HALF },

    { "d64", F16, ROW_QUICK, { ONE_RUN(2048, 64), .strategy = "fused_wgmma" }, "sm_90" },
    { "d80", HALF, 0, { ONE_RUN(2048, 80), .strategy = "fused_wgmma" }, "sm_90" },
    { "d96", HALF, 0, { ONE_RUN(2048, 96), .strategy = "fused_wgmma" }, "sm_90" },
    { "d128", F16, ROW_QUICK, { ONE_RUN(2048, 128), .strategy = "fused_wgmma" }, "sm_90" },
    { "d256", HALF, ROW_MAY_SPILL, { ONE_RUN(2048, 256), .strategy = "fused_wgmma" }, "sm_90" }, /* 28 bytes */
    { "d64-causal", HALF, 0, { ONE_RUN(2048, 64), .strategy = "fused_wgmma", CAUSAL }, "sm_90" },
    { "d128-causal", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_wgmma", CAUSAL }, "sm_90" },
    { "d64-mask", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_wgmma", .features = CLATTN_WITH_MASK }, "sm_90" },
    { "d64-bias", HALF, 0, { ONE_RUN(2048, 64), .strategy = "fused_wgmma", .bias_type = CLATTN_FLOAT32 }, "sm_90" },
    { "d64-window", HALF, 0,
      { ONE_RUN_WINDOW(2048, 64, 300), .strategy = "fused_wgmma", CAUSAL }, "sm_90" },
    { "d64-blocks", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_wgmma", .features = CLATTN_WITH_BLOCK_MASK, .block_mask_rows = 64,
        .block_mask_keys = 64 }, "sm_90" },
    { "d64-all", HALF, 0, { ONE_RUN(2048, 64), .strategy = "fused_wgmma", EVERYTHING }, "sm_90" },
    { "d64-pages", HALF, 0, { ONE_RUN(2048, 64), .strategy = "fused_wgmma", CAUSAL, PAGES }, "sm_90" },
    { "d128-mask", HALF, 0,
      { ONE_RUN(2048, 128), .strategy = "fused_wgmma", .features = CLATTN_WITH_MASK }, "sm_90" },
    { "d128-bias", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_wgmma", .bias_type = CLATTN_FLOAT32 }, "sm_90" },
    { "d128-all", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_wgmma", EVERYTHING }, "sm_90" },
    { "d128-pages", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_wgmma", CAUSAL, PAGES }, "sm_90" },
    { "d128-pools", HALF, 0, { ONE_RUN(2048, 128), .strategy = "fused_wgmma", CAUSAL, POOLS }, "sm_90" },
    { "rounded-d64", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_wgmma", .allow_rounded_weights = 1 }, "sm_90" },
    { "rounded-d128", HALF, ROW_QUICK,
      { ONE_RUN(2048, 128), .strategy = "fused_wgmma", .allow_rounded_weights = 1 }, "sm_90" },
    { "rounded-d256", HALF, ROW_MAY_SPILL,
      { ONE_RUN(2048, 256), .strategy = "fused_wgmma", .allow_rounded_weights = 1 }, "sm_90" },

    { "rounded-d64", HALF, 0,
      { ONE_RUN(2048, 64), .strategy = "fused_mma", .allow_rounded_weights = 1 }, MATRIX_UNITS_HALF },
    { "rounded-d128", HALF, ROW_QUICK,
      { ONE_RUN(2048, 128), .strategy = "fused_mma", .allow_rounded_weights = 1 }, MATRIX_UNITS_HALF },

    { "d64-tf32", F32, ROW_QUICK, { ONE_RUN(2048, 64), .strategy = "fused_mma", .allow_tf32 = 1 }, TF32_UNITS },
    { "d128-tf32", F32, ROW_QUICK | ROW_MAY_SPILL, /* 4 bytes for sm_90 */
      { ONE_RUN(2048, 128), .strategy = "fused_mma", .allow_tf32 = 1 }, TF32_UNITS },
    { "d128-tf32-all", F32, 0,
      { ONE_RUN(2048, 128), .strategy = "fused_mma", .allow_tf32 = 1, EVERYTHING }, TF32_UNITS },

    { "d64-long", F32, ROW_QUICK | ROW_MAY_SPILL, { SHAPE(2048, 64), .strategy = "fused_simt" }, 0 },
    { "d128-long", F32 | F16, ROW_MAY_SPILL, { SHAPE(2048, 128), .strategy = "fused_simt" }, 0 },
    { "d64-long", HALF, ROW_QUICK | ROW_MAY_SPILL, { SHAPE(2048, 64), .strategy = "fused_mma" }, MATRIX_UNITS_HALF },
    { "d64-long", HALF, ROW_MAY_SPILL, { SHAPE(2048, 64), .strategy = "fused_wgmma" }, "sm_90" },
    { "d128-long", HALF, ROW_QUICK | ROW_MAY_SPILL, { SHAPE(2048, 128), .strategy = "fused_wgmma" }, "sm_90" },
    { "d128-long", HALF, ROW_MAY_SPILL, { SHAPE(2048, 128), .strategy = "fused_mma" }, MATRIX_UNITS_HALF },

    { "decode-d64", F32 | F16, ROW_QUICK, { SHAPE(1, 64), .strategy = "split_simt" }, 0 },
    { "decode-d128", F32 | F16, ROW_QUICK, { SHAPE(1, 128), .strategy = "split_simt", CAUSAL }, 0 },
    { "decode-8-d128", F32 | F16, ROW_QUICK, { SHAPE(8, 128), .strategy = "split_simt", CAUSAL }, 0 },
    { "decode-8-d64", F32 | F16, 0, { SHAPE(8, 64), .strategy = "split_simt" }, 0 },
    { "decode-8-all", HALF, 0, { SHAPE(8, 128), .strategy = "split_simt", CAUSAL_AND_MORE }, 0 },
    { "decode-pages", F32 | F16, 0, { SHAPE(1, 128), .strategy = "split_simt", CAUSAL, PAGES }, 0 },
    { "decode-pools", F32 | F16, ROW_QUICK, { SHAPE(1, 128), .strategy = "split_simt", CAUSAL, POOLS }, 0 },
    { "decode-blocks", F16, ROW_QUICK,
      { SHAPE(1, 128), .strategy = "split_simt", .key_type = CLATTN_Q8_0, .value_type = CLATTN_Q4_0 }, 0 },
    { "decode-8-blocks", F32, 0,
      { SHAPE(8, 128), .strategy = "split_simt", .key_type = CLATTN_Q5_1, .value_type = CLATTN_Q8_0, CAUSAL }, 0 },
    { "decode-4-int8", F32, ROW_QUICK,
      { SHAPE(4, 128), .strategy = "split_simt", .key_type = CLATTN_INT8, .value_type = CLATTN_INT8 }, 0 },
    { "decode-4-q4", F32, 0,
      { SHAPE(4, 128), .strategy = "split_simt", .key_type = CLATTN_Q4_0, .value_type = CLATTN_Q4_0 }, 0 },
    { "decode-e2m1", F16, ROW_QUICK,
      { SHAPE(1, 128), .strategy = "split_simt", .key_type = CLATTN_MXFP4_GGML, .value_type = CLATTN_NVFP4_GGML }, 0 },
    { "decode-int4", F16, ROW_QUICK,
      { SHAPE(4, 128), .strategy = "split_simt", .key_type = CLATTN_INT4, .value_type = CLATTN_INT4,
        .features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES }, 0 },
    { "decode-zero-points", F16, 0,
      { SHAPE(1, 128), .strategy = "split_simt", .key_type = CLATTN_U4, .value_type = CLATTN_U8,
        .features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES, .key_scale_rows = 1, .value_scale_rows = 1 },
      0 },
    { "decode-nvfp4", F16, ROW_QUICK,
      { SHAPE(1, 128), .strategy = "split_simt", .key_type = CLATTN_NVFP4, .value_type = CLATTN_MXFP8,
        .features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES }, 0 },
    { "decode-scales", F16, 0,
      { SHAPE(1, 128), .strategy = "split_simt", .key_type = CLATTN_INT8, .value_type = CLATTN_E4M3,
        .features = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES }, 0 },
};

/* What CPUs take. Their hot loops are judged, not how all of it compiles (tests/offline/run-cpus). */
static const struct problem_row cpu_rows[] = {
    { "d64", F32, ROW_QUICK, { SHAPE(2048, 64), .strategy = "fused_simd" }, 0 },
    { "d80", F32, 0, { SHAPE(2048, 80), .strategy = "fused_simd" }, 0 },
    { "d128", F32, ROW_QUICK, { SHAPE(2048, 128), .strategy = "fused_simd" }, 0 },
    { "d64", F16, 0, { SHAPE(2048, 64), .strategy = "fused_simd" }, 0 },
    { "d80", F16, 0, { SHAPE(2048, 80), .strategy = "fused_simd" }, 0 },
    { "d128", F16, 0, { SHAPE(2048, 128), .strategy = "fused_simd" }, 0 },
    { "decode-d64", F32, 0, { SHAPE(1, 64), .strategy = "split" }, 0 },
    { "decode-d128", F32 | F16, 0, { SHAPE(1, 128), .strategy = "split" }, 0 },
    { "tiles", F32 | F64, 0, { SHAPE(2048, 64), .strategy = "staged", .matmul = CLATTN_MATMUL_TILES }, 0 },
};
/* clang-format on */

const struct problem_table gpu_problems = { gpu_rows, sizeof(gpu_rows) / sizeof(gpu_rows[0]) };
const struct problem_table cpu_problems = { cpu_rows, sizeof(cpu_rows) / sizeof(cpu_rows[0]) };
