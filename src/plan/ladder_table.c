/* The rungs of the probe ladder, one row each, and what is asked of the host before a probe may run. */
#include "cl/mma/mma_units.h"
#include "device/x86.h"
#include "plan/ladder.h"

/* A kernel that is compiled for the wrong size of sub-groups computes nonsense, or worse. */
static int check_intel(const struct device *device, size_t sub_group_size, struct text *why)
{
    if (!device->has_intel_matrix) {
        text_append(why, "the device has no cl_intel_subgroup_matrix_multiply_accumulate");
        return 0;
    }
    if (device->sub_group_size_least != sub_group_size) {
        text_append(why, "the device multiplies matrices in sub-groups of %zu", device->sub_group_size_least);
        return 0;
    }
    return 1;
}

static int check_intel_16(const struct device *device, struct text *why)
{
    return check_intel(device, 16, why);
}

static int check_intel_8(const struct device *device, struct text *why)
{
    return check_intel(device, 8, why);
}

static int check_aarch64(const struct device *device, struct text *why)
{
    (void)device;
#if defined(__aarch64__)
    (void)why;
    return 1;
#else
    text_append(why, "no AArch64 CPU");
    return 0;
#endif
}

/* The matrix units of GPUs, a rung for each type (cl/forward/forward_params.h), all by one probe. */
#define TEXT_OF(number) #number
#define OPTIONS(unit, type) "-D EMULATED=0 -D MATRIX=" TEXT_OF(unit) " -D TYPE=" TEXT_OF(type)
#define MATRIX_RUNG(rung_name, text, of_vendor, check, unit, type, columns, lanes)                                     \
    {                                                                                                                  \
        .name = rung_name, .summary = text, .classes = RUNG_CLASS(DEVICE_GPU), .vendor = of_vendor,                    \
        .host_check = check, .file = "probes/probe_mma.cl", .options = OPTIONS(unit, type), .kernel = "probe_product", \
        .m = 48, .n = columns, .k = 16, .work_items = lanes,                                                           \
    }

/* Products of NVIDIA's warpgroups: those units' registers, other instructions, by a second build. */
#define WARPGROUP_RUNG(rung_name, text, type, more, for_memory)                                                        \
    {                                                                                                                  \
        .name = rung_name, .summary = text, .classes = RUNG_CLASS(DEVICE_GPU), .vendor = "NVIDIA",                     \
        .file = "probes/probe_wgmma.cl",                                                                               \
        .options = OPTIONS(CLATTN_MATRIX_NVIDIA_80, type) more " -D SECOND_BUILD=sm_90a", .kernel = "probe_product",   \
        .m = 64, .n = 64, .k = 32, .work_items = 128, .asks_for_memory = for_memory,                                   \
    }

/* A rung of CPUs, probed by one work-item: product is rows x 16, from 32 columns of a. */
#define CPU_RUNG(rung_name, text, check, probe_file, build_options, rows)                                              \
    .name = rung_name, .summary = text, .classes = RUNG_CLASS(DEVICE_CPU), .host_check = check, .file = probe_file,    \
    .options = build_options, .kernel = "probe_product", .m = rows, .n = 16, .k = 32, .work_items = 1

const struct rung ladder_table[RUNG_COUNT] = {
    [RUNG_AVX2] = {
        CPU_RUNG("avx2", "multiply-adds in 16 registers of 8 numbers: x86 AVX2 and FMA", x86_has_avx2,
                 "probes/probe_registers.cl", "-D NEEDS=AVX2", 4),
        .without_kernel = "the device's compiler is held to older instructions",
        .builds_everywhere = 1,
    },
    [RUNG_AVX512] = {
        CPU_RUNG("avx512", "multiply-adds in 32 registers of 16 numbers: x86 AVX-512", x86_has_avx512,
                 "probes/probe_registers.cl", "-D NEEDS=AVX512", 4),
        .without_kernel = "the device's compiler is held to older instructions",
        .builds_everywhere = 1,
    },
    [RUNG_NEON] = {
        CPU_RUNG("neon", "multiply-adds in 32 registers of 4 numbers: AArch64", check_aarch64,
                 "probes/probe_registers.cl", "-D NEEDS=NEON", 4),
        .builds_everywhere = 1,
    },
    [RUNG_AVX512_BF16] = {
        CPU_RUNG("avx512_bf16", "dot products of bfloat16 pairs, faster than multiply-adds: x86 AVX512-BF16",
                 x86_has_avx512_bf16, "probes/probe_avx512_bf16.cl", "", 4),
        .without_kernel = "the device's compiler is held to older instructions",
        .speed_kernel = "probe_speed",
        .rival_kernel = "probe_rival",
        .rounds = 4000,
        .gain_least = 1.2, /* 1 where an instruction takes two steps; elsewhere 2, and 1.45 beside a busy twin core */
    },
    [RUNG_AMX_BF16] = {
        CPU_RUNG("amx_bf16", "products of bfloat16 tiles: x86 AMX", x86_has_amx_bf16, "probes/probe_amx.cl", "", 16),
    },
    [RUNG_NVIDIA_90_F16] =
        WARPGROUP_RUNG("nvidia_sm90_f16", "products of float16 matrices by warpgroups (NVIDIA wgmma)",
                       CLATTN_CL_FLOAT16, "", 0),
    [RUNG_NVIDIA_90_BF16] =
        WARPGROUP_RUNG("nvidia_sm90_bf16", "products of bfloat16 matrices by warpgroups (NVIDIA wgmma)",
                       CLATTN_CL_BFLOAT16, "", 0),
    [RUNG_NVIDIA_90_LOCAL] =
        WARPGROUP_RUNG("nvidia_sm90_local", "104 KiB of local memory where OpenCL C has 48 (NVIDIA, built twice)",
                       CLATTN_CL_FLOAT16, " -D LARGE_BYTES=WGMMA_LARGE_BYTES", 1),
    [RUNG_NVIDIA_80_F16] =
        MATRIX_RUNG("nvidia_sm80_f16", "products of float16 matrices (NVIDIA mma.m16n8k16)",
                    "NVIDIA", NULL, CLATTN_MATRIX_NVIDIA_80, CLATTN_CL_FLOAT16, 16, 32),
    [RUNG_NVIDIA_80_BF16] =
        MATRIX_RUNG("nvidia_sm80_bf16", "products of bfloat16 matrices (NVIDIA mma.m16n8k16)",
                    "NVIDIA", NULL, CLATTN_MATRIX_NVIDIA_80, CLATTN_CL_BFLOAT16, 16, 32),
    [RUNG_NVIDIA_75_F16] =
        MATRIX_RUNG("nvidia_sm75_f16", "products of float16 matrices (NVIDIA mma.m16n8k8)",
                    "NVIDIA", NULL, CLATTN_MATRIX_NVIDIA_75, CLATTN_CL_FLOAT16, 16, 32),
    [RUNG_NVIDIA_70_F16] =
        MATRIX_RUNG("nvidia_sm70_f16", "products of float16 matrices (NVIDIA mma.m8n8k4)",
                    "NVIDIA", NULL, CLATTN_MATRIX_NVIDIA_70, CLATTN_CL_FLOAT16, 16, 32),
    [RUNG_NVIDIA_TF32] =
        MATRIX_RUNG("nvidia_sm80_tf32", "products of float32 matrices, rounded to tf32 (NVIDIA mma.m16n8k8)",
                    "NVIDIA", NULL, CLATTN_MATRIX_NVIDIA_TF32, CLATTN_CL_FLOAT32, 16, 32),
    [RUNG_INTEL_16_F16] =
        MATRIX_RUNG("intel_dpas16_f16", "products of float16 matrices (Intel DPAS, sub-groups of 16)",
                    "Intel", check_intel_16, CLATTN_MATRIX_INTEL_16, CLATTN_CL_FLOAT16, 16, 16),
    [RUNG_INTEL_16_BF16] =
        MATRIX_RUNG("intel_dpas16_bf16", "products of bfloat16 matrices (Intel DPAS, sub-groups of 16)",
                    "Intel", check_intel_16, CLATTN_MATRIX_INTEL_16, CLATTN_CL_BFLOAT16, 16, 16),
    [RUNG_INTEL_8_F16] =
        MATRIX_RUNG("intel_dpas8_f16", "products of float16 matrices (Intel DPAS, sub-groups of 8)",
                    "Intel", check_intel_8, CLATTN_MATRIX_INTEL_8, CLATTN_CL_FLOAT16, 8, 8),
    [RUNG_INTEL_8_BF16] =
        MATRIX_RUNG("intel_dpas8_bf16", "products of bfloat16 matrices (Intel DPAS, sub-groups of 8)",
                    "Intel", check_intel_8, CLATTN_MATRIX_INTEL_8, CLATTN_CL_BFLOAT16, 8, 8),
    [RUNG_WMMA_12_F16] =
        MATRIX_RUNG("amd_wmma12_f16", "products of float16 matrices (AMD WMMA of RDNA 4)",
                    "Advanced Micro Devices", NULL, CLATTN_MATRIX_AMD_WMMA_12, CLATTN_CL_FLOAT16, 16, 32),
    [RUNG_WMMA_12_BF16] =
        MATRIX_RUNG("amd_wmma12_bf16", "products of bfloat16 matrices (AMD WMMA of RDNA 4)",
                    "Advanced Micro Devices", NULL, CLATTN_MATRIX_AMD_WMMA_12, CLATTN_CL_BFLOAT16, 16, 32),
    [RUNG_WMMA_11_F16] =
        MATRIX_RUNG("amd_wmma11_f16", "products of float16 matrices (AMD WMMA of RDNA 3)",
                    "Advanced Micro Devices", NULL, CLATTN_MATRIX_AMD_WMMA_11, CLATTN_CL_FLOAT16, 16, 32),
    [RUNG_WMMA_11_BF16] =
        MATRIX_RUNG("amd_wmma11_bf16", "products of bfloat16 matrices (AMD WMMA of RDNA 3)",
                    "Advanced Micro Devices", NULL, CLATTN_MATRIX_AMD_WMMA_11, CLATTN_CL_BFLOAT16, 16, 32),
    [RUNG_MFMA_F16] =
        MATRIX_RUNG("amd_mfma_f16", "products of float16 matrices (AMD MFMA of CDNA 2)",
                    "Advanced Micro Devices", NULL, CLATTN_MATRIX_AMD_MFMA, CLATTN_CL_FLOAT16, 16, 64),
    [RUNG_MFMA_BF16] =
        MATRIX_RUNG("amd_mfma_bf16", "products of bfloat16 matrices (AMD MFMA of CDNA 2)",
                    "Advanced Micro Devices", NULL, CLATTN_MATRIX_AMD_MFMA, CLATTN_CL_BFLOAT16, 16, 64),
};
