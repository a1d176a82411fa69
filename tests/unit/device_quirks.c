/* Which devices the rows of src/device/device_quirks.c are for, and which strategies a quirk keeps away. What quirks
 * mean for the program cache is in tests/cache/program_cache. */
#include <stdio.h>
#include <string.h>

#include "operation/problem.h"
#include "plan/strategy.h"
#include "suite.h"

static unsigned quirks_of(const char *platform, const char *name, const char *driver)
{
    struct device device;
    memset(&device, 0, sizeof(device));
    snprintf(device.platform_name, sizeof(device.platform_name), "%s", platform);
    snprintf(device.name, sizeof(device.name), "%s", name);
    snprintf(device.driver, sizeof(device.driver), "%s", driver);
    size_t reasons = 0;
    for (const char *reason; (reason = device_quirk_reason(&device, reasons)) != NULL; ++reasons) {
        ck_assert_uint_gt(strlen(reason), 20);
    }
    ck_assert(reasons > 0 || device_quirks(&device) == 0);
    return device_quirks(&device);
}

START_TEST(test_pocl)
{
    const unsigned expected = QUIRK_KEEPS_PROGRAMS | QUIRK_COMPILES_AT_ENQUEUE;
    ck_assert_uint_eq(quirks_of("Portable Computing Language", "pthread-skylake-avx512-AMD", "3.1+debian"),
                      expected | QUIRK_COPIES_KERNELS);
    ck_assert_uint_eq(quirks_of("Portable Computing Language", "basic", "3.1+debian"), expected | QUIRK_COPIES_KERNELS);
    ck_assert_uint_eq(quirks_of("Portable Computing Language", "cpu-znver4-AMD", "7.0"), expected);
    const char *const misread_assembly[] = { "4.0+debian", "5.0+debian", "6.0" };
    for (int i = 0; i < 3; ++i) {
        ck_assert_uint_eq(quirks_of("Portable Computing Language", "cpu-znver4-AMD", misread_assembly[i]),
                          expected | QUIRK_ASSEMBLY_NEEDS_ALLOCAS);
    }
}
END_TEST

START_TEST(test_rusticl)
{
    ck_assert_uint_eq(quirks_of("rusticl", "llvmpipe (LLVM 19.1.7, 256 bits)", "25.0.7-2"), QUIRK_NO_LARGE_VECTORS);
    ck_assert_uint_eq(quirks_of("rusticl", "AMD Radeon RX 7900 XTX (radeonsi, navi31)", "25.0.7-2"), 0);
}
END_TEST

/* Nothing that the library can mend, but what users must know. */
START_TEST(test_fpga_emulator)
{
    struct device device = { .platform_name = "Intel(R) FPGA Emulation Platform for OpenCL(TM)" };
    ck_assert_ptr_nonnull(device_quirk_reason(&device, 0));
    ck_assert_ptr_nonnull(strstr(device_quirk_reason(&device, 0), "CL_CONFIG_CPU_TARGET_ARCH=core-avx2"));
    ck_assert_uint_eq(device_quirks(&device), 0);
}
END_TEST

static int is_tested(enum device_class device_class, const char *platform, const char *driver)
{
    struct device device;
    memset(&device, 0, sizeof(device));
    device.device_class = device_class;
    snprintf(device.platform_name, sizeof(device.platform_name), "%s", platform);
    snprintf(device.driver, sizeof(device.driver), "%s", driver);
    return device_is_tested(&device);
}

START_TEST(test_versions_that_the_tests_run_on)
{
    ck_assert(is_tested(DEVICE_CPU, "Portable Computing Language", "3.1+debian"));
    ck_assert(is_tested(DEVICE_CPU, "Portable Computing Language", "6.0"));
    ck_assert(!is_tested(DEVICE_CPU, "Portable Computing Language", "3.10"));
    ck_assert(!is_tested(DEVICE_CPU, "Portable Computing Language", "7.0"));
    ck_assert(!is_tested(DEVICE_GPU, "Portable Computing Language", "3.1"));
    ck_assert(is_tested(DEVICE_CPU, "Intel(R) OpenCL", "2026.22.10.0.01_160000"));
    ck_assert(!is_tested(DEVICE_CPU, "Intel(R) OpenCL", "2024.18.6.0.02_160000"));
    ck_assert(
        !is_tested(DEVICE_ACCELERATOR, "Intel(R) FPGA Emulation Platform for OpenCL(TM)", "2026.22.10.0.01_160000"));
    ck_assert(!is_tested(DEVICE_GPU, "NVIDIA CUDA", "580.95"));
}
END_TEST

/* Whether the strategy takes a decoding step in float32 on a CPU with the quirks. */
static int takes(const char *name, unsigned quirks)
{
    clattn_problem given = CLATTN_PROBLEM_INIT;
    struct problem problem;
    clattn_context context;
    given.batch = given.query_heads = given.kv_heads = given.query_len = 1;
    given.key_len = 256;
    given.head_dim = 64;
    ck_assert_int_eq(problem_init(&problem, &given), CLATTN_OK);
    memset(&context, 0, sizeof(context));
    context.workspace_limit_bytes = (size_t)1 << 30;
    context.device.device_class = DEVICE_CPU;
    context.device.compute_units = 2;
    context.device.work_group_limit = context.device.work_item_limit[0] = 4096;
    context.device.local_bytes = 1 << 20;
    context.device.parameter_bytes = 4352;
    context.device.quirks = quirks;
    for (size_t i = 0; i < strategy_count; ++i) {
        if (strategy_table[i]->operation == problem.any.operation && strcmp(strategy_table[i]->name, name) == 0) {
            struct text why = TEXT_INIT;
            struct ask ask = { .context = &context, .problem = &problem.any, .why = &why };
            int taken = strategy_table[i]->applicable(&ask);
            text_free(&why);
            return taken;
        }
    }
    ck_abort_msg("no strategy %s", name);
    return 0;
}

START_TEST(test_no_large_vectors)
{
    const char *const vectors[] = { "fused_simd", "split" }, *const others[] = { "plain", "fused_simt" };
    for (int i = 0; i < 2; ++i) {
        ck_assert_msg(takes(vectors[i], 0), "%s", vectors[i]);
        ck_assert_msg(!takes(vectors[i], QUIRK_NO_LARGE_VECTORS), "%s", vectors[i]);
        ck_assert_msg(takes(others[i], QUIRK_NO_LARGE_VECTORS), "%s", others[i]);
    }
}
END_TEST

START_TEST(test_others)
{
    ck_assert_uint_eq(quirks_of("Intel(R) OpenCL", "AMD EPYC", "2026.21.3.0.16_160000"), 0);
    ck_assert_uint_eq(quirks_of("Intel(R) FPGA Emulation Platform for OpenCL(TM)", "Emulation Device", "2025"), 0);
    ck_assert_uint_eq(quirks_of("Oclgrind", "Oclgrind Simulator", "Oclgrind 21.10"), 0);
    ck_assert_uint_eq(quirks_of("NVIDIA CUDA", "NVIDIA H200", "550.54"), 0);
    ck_assert_uint_eq(quirks_of("Not the Portable Computing Language", "llvmpipe", ""), 0);
    ck_assert_uint_eq(quirks_of("Portable Computing Language of another", "llvmpipe", ""), 0);
    ck_assert_uint_eq(quirks_of("", "", ""), 0);
}
END_TEST

SUITE("device quirks", test_pocl, test_versions_that_the_tests_run_on, test_rusticl, test_fpga_emulator,
      test_no_large_vectors, test_others)
