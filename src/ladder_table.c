/* The rungs of the probe ladder, one row each, and what is asked of the host before a probe may run. */
#include "ladder.h"
#include "x86.h"

static int check_avx512_bf16(const struct device *device, struct text *why)
{
    (void)device;
    return x86_has_avx512_bf16(why);
}

static int check_amx_bf16(const struct device *device, struct text *why)
{
    (void)device;
    return x86_has_amx_bf16(why);
}

const struct rung ladder_table[RUNG_COUNT] = {
    [RUNG_AVX512_BF16] = {
        .name = "avx512_bf16",
        .summary = "bfloat16 in vector registers: x86 AVX512-BF16",
        .classes = RUNG_CLASS(DEVICE_CPU),
        .host_check = check_avx512_bf16,
        .file = "probe_avx512_bf16.cl",
        .options = "",
        .kernel = "probe_product",
        .m = 4,
        .n = 16,
        .k = 32,
        .work_items = 1,
    },
    [RUNG_AVX512_BF16_DOT] = {
        .name = "avx512_bf16_dot",
        .summary = "the same, faster than multiply-adds: x86 VDPBF16PS",
        .classes = RUNG_CLASS(DEVICE_CPU),
        .host_check = check_avx512_bf16,
        .file = "probe_avx512_bf16.cl",
        .options = "",
        .kernel = "probe_product",
        .m = 4,
        .n = 16,
        .k = 32,
        .work_items = 1,
        .speed_kernel = "probe_speed",
        .rival_kernel = "probe_rival",
        .rounds = 4000,
        .gain_least = 1.2, /* 1 where an instruction takes two steps; elsewhere 2, and 1.45 beside a busy twin core */
    },
    [RUNG_AMX_BF16] = {
        .name = "amx_bf16",
        .summary = "products of bfloat16 tiles: x86 AMX",
        .classes = RUNG_CLASS(DEVICE_CPU),
        .host_check = check_amx_bf16,
        .file = "probe_amx.cl",
        .options = "",
        .kernel = "probe_product",
        .m = 16,
        .n = 16,
        .k = 32,
        .work_items = 1,
    },
};
