/* What fused_simd and fused_amx are made of, for kernels and for src/strategy/fused_simd_run.c. */
#ifndef CLATTN_SIMD_LAYOUT_H
#define CLATTN_SIMD_LAYOUT_H

#define LANES 16 /* elements of a vector: query rows, or keys */

/* Blocks of keys whose sums are added up one after the other; longer sums are made of such runs (simd/total.clh). */
#define SIMD_RUN_BLOCKS 32

/* -D PRODUCT: how scores and P * V are multiplied. */
#define PRODUCT_FMA 0   /* float32 multiply-adds, on every device */
#define PRODUCT_DOT 1   /* dot products of bfloat16 pairs: x86 AVX512-BF16 */
#define PRODUCT_TILES 2 /* tiles of bfloat16: x86 AMX; VECTORS is even */

#endif
