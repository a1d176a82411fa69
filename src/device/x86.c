/* Registers of multiply-adds by cpuid, on every system; what the operating system must save besides through GNU's C
 * library; the permission for AMX tiles through arch_prctl, for which that has no function. */
#include "device/x86.h"

#include <string.h>

#include "device/environment.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* Bits of cpuid, and of the registers that the operating system saves (XCR0): SSE, AVX; and the three parts of AVX-512.
 * By hand, since the compiler's own question keeps its answer in global variables. */
#define LEAF_1_ECX_FMA (1u << 12)
#define LEAF_1_ECX_OSXSAVE (1u << 27)
#define LEAF_7_EBX_AVX2 (1u << 5)
#define LEAF_7_EBX_AVX512F (1u << 16)
#define LEAF_7_EBX_AVX512BW (1u << 30)
#define SAVES_AVX 0x06u
#define SAVES_AVX512 0xe6u

/* Whether leaf 7 has all bits `needed`, with multiply-adds, and the operating system saves `saved`. */
static int cpu_has(unsigned needed, unsigned saved)
{
    unsigned eax, ebx, ecx, edx, low, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & LEAF_1_ECX_OSXSAVE) || !(ecx & LEAF_1_ECX_FMA)) {
        return 0;
    }
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & saved) != saved || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        return 0;
    }
    return (ebx & needed) == needed;
}

/* Intel's runtimes compile for less than the CPU has where this variable names an older one. */
static int is_limited_to(const struct device *device, const char *const *targets, struct text *why)
{
    const char *target = strstr(device->platform_name, "Intel") ? environment_intel_target() : NULL;
    for (; target && *targets; ++targets) {
        if (strcmp(target, *targets) == 0) {
            text_append(why, "CL_CONFIG_CPU_TARGET_ARCH=%s holds Intel's runtimes to older instructions", target);
            return 1;
        }
    }
    return 0;
}

static int has(const struct device *device, unsigned needed, unsigned saved, const char *const *without,
               struct text *why)
{
    if (!cpu_has(needed, saved)) {
        text_append(why, "the CPU does not have the instructions");
        return 0;
    }
    return !is_limited_to(device, without, why);
}

int x86_has_avx2(const struct device *device, struct text *why)
{
    static const char *const without[] = { "corei7", "corei7-avx", NULL };
    return has(device, LEAF_7_EBX_AVX2, SAVES_AVX, without, why);
}

int x86_has_avx512(const struct device *device, struct text *why)
{
    static const char *const without[] = { "corei7", "corei7-avx", "core-avx2", NULL };
    return has(device, LEAF_7_EBX_AVX512F | LEAF_7_EBX_AVX512BW, SAVES_AVX512, without, why);
}

#else

int x86_has_avx2(const struct device *device, struct text *why)
{
    (void)device;
    text_append(why, "no x86-64 CPU");
    return 0;
}

int x86_has_avx512(const struct device *device, struct text *why)
{
    return x86_has_avx2(device, why);
}

#endif

#if defined(__x86_64__) && defined(__linux__) && defined(__has_include)
#if __has_include(<sys/platform/x86.h>)
#define CAN_ASK 1
#endif
#endif

#ifdef CAN_ASK
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From Linux's asm/prctl.h and asm/fpu/types.h, which older headers lack. */
#define ARCH_GET_XCOMP_SUPP 0x1021
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static int request_tiles(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

int x86_has_avx512_bf16(const struct device *device, struct text *why)
{
    (void)device;
    if (CPU_FEATURE_ACTIVE(AVX512_BF16) && CPU_FEATURE_ACTIVE(AVX512BW)) {
        return 1;
    }
    text_append(why, "the CPU does not have the instructions");
    return 0;
}

int x86_has_amx_bf16(const struct device *device, struct text *why)
{
    (void)device;
    unsigned long long features = 0;
    if (!CPU_FEATURE_PRESENT(AMX_TILE) || !CPU_FEATURE_PRESENT(AMX_BF16) || !CPU_FEATURE_ACTIVE(AVX512F)) {
        text_append(why, "the CPU does not have the instructions");
        return 0;
    }
    if (syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &features) != 0 || !(features >> XFEATURE_XTILEDATA & 1)) {
        text_append(why, "the operating system does not save tile registers (Linux does from 5.16 on)");
        return 0;
    }
    if (!request_tiles()) {
        text_append(why, "the operating system refused the tile registers (arch_prctl)");
        return 0;
    }
    return 1;
}

void x86_request_tiles(void)
{
    if (CPU_FEATURE_PRESENT(AMX_TILE)) {
        request_tiles();
    }
}

#else

static int cannot_ask(struct text *why)
{
    text_append(why, "clattn asks the CPU on x86-64 Linux with GNU libc 2.33 or later only");
    return 0;
}

int x86_has_avx512_bf16(const struct device *device, struct text *why)
{
    (void)device;
    return cannot_ask(why);
}

int x86_has_amx_bf16(const struct device *device, struct text *why)
{
    (void)device;
    return cannot_ask(why);
}

void x86_request_tiles(void)
{
}

#endif
