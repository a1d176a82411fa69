/* cpuid through the C library, which also knows what the operating system saves; the permission for AMX
 * tiles through arch_prctl, for which the C library has no function. */
#include "device/x86.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__has_include)
#if __has_include(<sys/platform/x86.h>)
#define CAN_ASK 1
#endif
#endif

#ifdef CAN_ASK
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the kernel's asm/prctl.h and asm/fpu/types.h, which older headers lack. */
#define ARCH_GET_XCOMP_SUPP 0x1021
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static int request_tiles(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

int x86_has_avx512_bf16(struct text *why)
{
    if (CPU_FEATURE_ACTIVE(AVX512_BF16) && CPU_FEATURE_ACTIVE(AVX512BW)) {
        return 1;
    }
    text_append(why, "the CPU does not have the instructions");
    return 0;
}

int x86_has_amx_bf16(struct text *why)
{
    unsigned long long features = 0;
    if (!CPU_FEATURE_PRESENT(AMX_TILE) || !CPU_FEATURE_PRESENT(AMX_BF16) ||
        !CPU_FEATURE_ACTIVE(AVX512F)) {
        text_append(why, "the CPU does not have the instructions");
        return 0;
    }
    if (syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &features) != 0 ||
        !(features >> XFEATURE_XTILEDATA & 1)) {
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

int x86_has_avx512_bf16(struct text *why)
{
    return cannot_ask(why);
}

int x86_has_amx_bf16(struct text *why)
{
    return cannot_ask(why);
}

void x86_request_tiles(void) {}

#endif
