/* The GPUs and CPUs that null_driver.c can be: at least one of each generation that compilers tell apart. */
#include "null_driver.h"

#define INTEL "Intel(R) Corporation", "Intel(R) OpenCL Graphics", CL_DEVICE_TYPE_GPU
#define AMD "Advanced Micro Devices, Inc.", "AMD Accelerated Parallel Processing", CL_DEVICE_TYPE_GPU
#define NVIDIA "NVIDIA Corporation", "NVIDIA CUDA", CL_DEVICE_TYPE_GPU
#define POCL "GenuineIntel", "Portable Computing Language", CL_DEVICE_TYPE_CPU

#define INTEL_EXTENSIONS                                                                                               \
    "cl_khr_byte_addressable_store cl_khr_fp16 cl_khr_icd cl_khr_subgroups "                                           \
    "cl_intel_required_subgroup_size cl_intel_subgroups cl_intel_subgroups_short"
#define INTEL_MATRIX " cl_intel_subgroup_matrix_multiply_accumulate"
#define AMD_EXTENSIONS "cl_khr_byte_addressable_store cl_khr_fp64 cl_khr_fp16 cl_khr_icd cl_khr_subgroups"
#define NVIDIA_EXTENSIONS "cl_khr_byte_addressable_store cl_khr_fp64 cl_khr_icd cl_nv_compiler_options"

#define KIB 1024

/* A CPU of eight cores under PoCL. */
#define CPU(target, rungs)                                                                                             \
    {                                                                                                                  \
        target, "pthread-" target, POCL, "cl_khr_byte_addressable_store cl_khr_fp64 cl_khr_icd", 4096, 512 * KIB,      \
            1024, { 0 }, 8, 1, rungs                                                                                   \
    }

/* clang-format off */
const struct null_device null_devices[] = {
    /* Intel: Tiger Lake, Arc A (Xe-HPG), Data Center GPU Max (Xe-HPC) */
    { "tgllp", "Intel(R) Iris(R) Xe Graphics", INTEL, INTEL_EXTENSIONS, 512, 64 * KIB, 2048, { 8, 16, 32 },
      96, 0,
      "" },
    { "dg2", "Intel(R) Arc(TM) A770 Graphics", INTEL, INTEL_EXTENSIONS INTEL_MATRIX, 1024, 64 * KIB, 2048,
      { 8, 16, 32 }, 512, 0,
      "intel_dpas8_f16 intel_dpas8_bf16" },
    { "pvc", "Intel(R) Data Center GPU Max 1550", INTEL, INTEL_EXTENSIONS INTEL_MATRIX " cl_khr_fp64", 1024,
      128 * KIB, 2048, { 16, 32 }, 1024, 1,
      "intel_dpas16_f16 intel_dpas16_bf16" },
    /* AMD: CDNA 2, RDNA 2, 3 and 4 */
    { "gfx90a", "gfx90a:sramecc+:xnack-", AMD, AMD_EXTENSIONS, 256, 64 * KIB, 1024, { 0 }, 104, 1,
      "amd_mfma_f16 amd_mfma_bf16" },
    { "gfx1030", "gfx1030", AMD, AMD_EXTENSIONS, 256, 64 * KIB, 1024, { 0 }, 40, 1,
      "" },
    { "gfx1100", "gfx1100", AMD, AMD_EXTENSIONS, 256, 64 * KIB, 1024, { 0 }, 48, 1,
      "amd_wmma11_f16 amd_wmma11_bf16" },
    { "gfx1200", "gfx1200", AMD, AMD_EXTENSIONS, 256, 64 * KIB, 1024, { 0 }, 16, 1,
      "amd_wmma12_f16 amd_wmma12_bf16" },
    /* NVIDIA: Volta, Turing, Ampere, Hopper */
    { "sm_70", "Tesla V100-SXM2-16GB", NVIDIA, NVIDIA_EXTENSIONS, 1024, 48 * KIB, 4352, { 0 }, 80, 1,
      "nvidia_sm70_f16" },
    { "sm_75", "Tesla T4", NVIDIA, NVIDIA_EXTENSIONS, 1024, 48 * KIB, 4352, { 0 }, 40, 1,
      "nvidia_sm70_f16 nvidia_sm75_f16" },
    { "sm_80", "NVIDIA A100-SXM4-80GB", NVIDIA, NVIDIA_EXTENSIONS, 1024, 48 * KIB, 4352, { 0 }, 108, 1,
      "nvidia_sm70_f16 nvidia_sm75_f16 nvidia_sm80_f16 nvidia_sm80_bf16 nvidia_sm80_tf32" },
    { "sm_90", "NVIDIA H100 80GB HBM3", NVIDIA, NVIDIA_EXTENSIONS, 1024, 48 * KIB, 4352, { 0 }, 132, 1,
      "nvidia_sm90_f16 nvidia_sm90_bf16 "
      "nvidia_sm70_f16 nvidia_sm75_f16 nvidia_sm80_f16 nvidia_sm80_bf16 nvidia_sm80_tf32" },
    /* x86-64 by its levels; AArch64 */
    CPU("x86-64-v2", ""),
    CPU("x86-64-v3", "avx2"),
    CPU("x86-64-v4", "avx2 avx512"),
    CPU("neoverse-n1", "neon"),
    CPU("cortex-a76", "neon"),
};
/* clang-format on */
const size_t null_device_count = sizeof(null_devices) / sizeof(null_devices[0]);
