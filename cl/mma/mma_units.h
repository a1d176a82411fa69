/* The matrix units that fused_mma knows: -D MATRIX=... for kernels, rungs of a ladder for the host. */
#ifndef CLATTN_MMA_UNITS_H
#define CLATTN_MMA_UNITS_H

#define CLATTN_MATRIX_NVIDIA_80 1  /* mma.sync m16n8k16, ldmatrix, cp.async */
#define CLATTN_MATRIX_NVIDIA_75 2  /* mma.sync m16n8k8, ldmatrix; float16 only */
#define CLATTN_MATRIX_INTEL_16 3   /* dpas, sub-groups of 16 (Xe-HPC, Xe2) */
#define CLATTN_MATRIX_INTEL_8 4    /* dpas, sub-groups of 8 (Xe-HPG) */
#define CLATTN_MATRIX_AMD_WMMA_11 5 /* RDNA 3, waves of 32 */
#define CLATTN_MATRIX_AMD_WMMA_12 6 /* RDNA 4, waves of 32 */
#define CLATTN_MATRIX_AMD_MFMA 7   /* CDNA 2 and later, waves of 64 */
#define CLATTN_MATRIX_NVIDIA_70 8  /* mma.sync m8n8k4; float16 only */
#define CLATTN_MATRIX_NVIDIA_TF32 9 /* mma.sync m16n8k8 of tf32, cp.async; for float32 */

#endif
