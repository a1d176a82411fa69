/* A CPU with AMX where there is none: preloaded into a program (LD_PRELOAD), it says that the instructions and
 * their tile registers are there, and carries out those that clattn uses when they trap. x86-64 Linux with
 * AVX-512. tests/emulated/amx.sh runs tests with it; tests/emulated/amx_instructions.c tests it.
 *
 *     ldtilecfg  VEX.NP 49 /0      tilezero   VEX.F2 49 reg     tileloadd   VEX.F2 4B /r sib
 *     tilerelease VEX.NP 49 C0     tdpbf16ps  VEX.F3 5C         tilestored  VEX.F3 4B /r sib
 *
 * all in VEX.128.0F38.W0 with the three-byte prefix. Any other illegal instruction goes to the handler that
 * was there before. */
#if defined(__x86_64__) && defined(__linux__) && defined(__has_include)
#if __has_include(<sys/platform/x86.h>)
#define CAN_EMULATE 1
#endif
#endif

#ifdef CAN_EMULATE

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <immintrin.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define TILES 8
#define ROWS 16
#define ROW_BYTES 64
#define XFEATURE_XTILEDATA 18

struct tile {
    _Alignas(64) uint8_t row[ROWS][ROW_BYTES];
    int rows, row_bytes; /* 0: not configured */
};

/* A thread's tiles, in the memory that exists before the first signal. */
static __thread __attribute__((tls_model("initial-exec"))) struct tile tiles[TILES];

/* ---- what the program is told --------------------------------------------------------------- */

/* The C library's own, when it is asked for anything but the permission. */
static long plain_syscall(long number, const long a[6])
{
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

long syscall(long number, ...)
{
    const long get_supported = 0x1021, request = 0x1023;
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; ++i) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_arch_prctl && a[0] == request && a[1] == XFEATURE_XTILEDATA) {
        return 0;
    }
    long result = plain_syscall(number, a);
    if (number == SYS_arch_prctl && a[0] == get_supported && result == 0) {
        *(uint64_t *)a[1] |= (uint64_t)1 << XFEATURE_XTILEDATA;
    }
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* What CPU_FEATURE_PRESENT and CPU_FEATURE_ACTIVE ask. */
const struct cpuid_feature *__x86_get_cpuid_feature_leaf(unsigned leaf)
{
    static _Thread_local struct cpuid_feature with_tiles;
    const struct cpuid_feature *(*real)(unsigned);
    *(void **)&real = dlsym(RTLD_NEXT, "__x86_get_cpuid_feature_leaf");
    const struct cpuid_feature *found = real(leaf);
    if (leaf != CPUID_INDEX_7 || !__builtin_cpu_supports("avx512f")) {
        return found;
    }
    with_tiles = *found;
    const unsigned edx = 3, bits = 1u << 22 | 1u << 24; /* AMX-BF16, AMX-TILE */
    with_tiles.cpuid_array[edx] |= bits;
    with_tiles.active_array[edx] |= bits;
    return &with_tiles;
}

/* ---- the instructions ----------------------------------------------------------------------- */

static void zero(struct tile *tile)
{
    memset(tile->row, 0, sizeof(tile->row));
}

static int configure(const uint8_t *shapes)
{
    if (shapes[0] != 1 || shapes[1] != 0) {
        return 0;
    }
    for (int i = 0; i < TILES; ++i) {
        tiles[i].row_bytes = shapes[16 + 2 * i] | shapes[17 + 2 * i] << 8;
        tiles[i].rows = shapes[48 + i];
        if (tiles[i].rows > ROWS || tiles[i].row_bytes > ROW_BYTES || tiles[i].row_bytes % 4) {
            return 0;
        }
        zero(&tiles[i]);
    }
    return 1;
}

static void release(void)
{
    memset(tiles, 0, sizeof(tiles));
}

static void load(struct tile *tile, const uint8_t *from, int64_t stride)
{
    zero(tile);
    for (int i = 0; i < tile->rows; ++i) {
        memcpy(tile->row[i], from + i * stride, (size_t)tile->row_bytes);
    }
}

static void store(const struct tile *tile, uint8_t *to, int64_t stride)
{
    for (int i = 0; i < tile->rows; ++i) {
        memcpy(to + i * stride, tile->row[i], (size_t)tile->row_bytes);
    }
}

/* sum += a * b. Sums of the low and of the high halves of the pairs are kept apart and added at the end.
 * Rounding is to nearest even, subnormal numbers are 0 before and after: so stands MXCSR meanwhile. */
__attribute__((target("avx512f"))) static int multiply(struct tile *sum, const struct tile *a, const struct tile *b)
{
    const unsigned nearest_daz_ftz = 0x1f80 | 0x8040, saved = _mm_getcsr();
    const int pairs = a->row_bytes / 4;
    if (!sum->rows || sum->rows != a->rows || sum->row_bytes != b->row_bytes || pairs != b->rows) {
        return 0;
    }
    _mm_setcsr(nearest_daz_ftz);
    for (int m = 0; m < sum->rows; ++m) {
        __m512 low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
        for (int k = 0; k < pairs; ++k) {
            uint32_t pair;
            memcpy(&pair, &a->row[m][4 * k], sizeof(pair));
            const __m512i elements = _mm512_load_si512(b->row[k]);
            const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
            low = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32((int)(pair << 16))),
                                  _mm512_castsi512_ps(_mm512_slli_epi32(elements, 16)), low);
            high = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32((int)(pair & 0xffff0000u))),
                                   _mm512_castsi512_ps(_mm512_and_si512(elements, upper)), high);
        }
        const __m512 before = _mm512_load_ps(sum->row[m]);
        _Alignas(64) uint8_t after[ROW_BYTES];
        _mm512_store_ps(after, _mm512_add_ps(before, _mm512_add_ps(low, high)));
        memset(sum->row[m], 0, ROW_BYTES);
        memcpy(sum->row[m], after, (size_t)sum->row_bytes);
    }
    _mm_setcsr(saved);
    return 1;
}

/* ---- decoding ------------------------------------------------------------------------------- */

struct operands {
    int mod, reg, rm, vvvv;
    uint8_t *address; /* of memory operands: base + displacement, and the index unless it is a stride */
    int64_t stride;
    int length; /* of the whole instruction */
};

static int64_t general_register(const ucontext_t *context, int number)
{
    static const int at[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
    return context->uc_mcontext.gregs[at[number]];
}

/* `code` is at the opcode's successor, the ModRM byte, at offset 4. */
static void decode(const ucontext_t *context, const uint8_t *code, int index_is_stride, struct operands *o)
{
    const int x = !(code[1] & 0x40) * 8, b = !(code[1] & 0x20) * 8;
    const uint8_t *at = code + 4;
    const uint8_t modrm = *at++;
    int64_t base = 0, index = 0;
    int32_t displacement = 0;
    o->mod = modrm >> 6;
    o->reg = modrm >> 3 & 7;
    o->rm = modrm & 7;
    o->vvvv = ~code[2] >> 3 & 15;
    int has_base = o->mod != 3;
    if (o->mod != 3 && o->rm == 4) {
        const uint8_t sib = *at++;
        const int index_number = (sib >> 3 & 7) | x;
        has_base = !((sib & 7) == 5 && o->mod == 0);
        index = index_number == 4 ? 0 : general_register(context, index_number) * (1 << (sib >> 6));
        base = has_base ? general_register(context, (sib & 7) | b) : 0;
    } else if (o->mod != 3 && !(o->rm == 5 && o->mod == 0)) {
        base = general_register(context, o->rm | b);
    } else {
        has_base = 0; /* relative to the next instruction */
    }
    if (o->mod == 1) {
        displacement = (int8_t)*at++;
    } else if (o->mod == 2 || (o->mod == 0 && !has_base)) {
        memcpy(&displacement, at, sizeof(displacement));
        at += sizeof(displacement);
    }
    o->length = (int)(at - code);
    if (o->mod == 0 && o->rm == 5) {
        base = (int64_t)(intptr_t)at;
    }
    o->stride = index;
    o->address = (uint8_t *)(intptr_t)(base + displacement + (index_is_stride ? 0 : index));
}

/* 1: the instruction was one of ours, and was carried out. */
static int emulate(const ucontext_t *context, const uint8_t *code, int *length)
{
    enum { NP = 0, F3 = 2, F2 = 3 };
    struct operands o;
    const int opcode = code[3], prefix = code[2] & 3;
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || code[2] & 0x84) { /* 0F38; W0, 128 bits */
        return 0;
    }
    decode(context, code, opcode == 0x4b, &o);
    *length = o.length;
    if (opcode == 0x49 && prefix == NP && o.mod != 3 && o.reg == 0) {
        return configure(o.address);
    }
    if (opcode == 0x49 && prefix == NP && o.mod == 3 && o.reg == 0 && o.rm == 0) {
        release();
        return 1;
    }
    struct tile *tile = &tiles[o.reg];
    if (!tile->rows) {
        return 0;
    }
    if (opcode == 0x49 && prefix == F2 && o.mod == 3 && o.rm == 0) {
        zero(tile);
        return 1;
    }
    if (opcode == 0x4b && prefix == F2 && o.mod != 3 && o.rm == 4) {
        load(tile, o.address, o.stride);
        return 1;
    }
    if (opcode == 0x4b && prefix == F3 && o.mod != 3 && o.rm == 4) {
        store(tile, o.address, o.stride);
        return 1;
    }
    if (opcode == 0x5c && prefix == F3 && o.mod == 3 && o.vvvv < TILES) {
        return multiply(tile, &tiles[o.rm], &tiles[o.vvvv]);
    }
    return 0;
}

static struct sigaction before; /* what the program believes to be the handler */

typedef int set_action(int, const struct sigaction *, struct sigaction *);

static set_action *real_sigaction(void)
{
    set_action *real;
    *(void **)&real = dlsym(RTLD_NEXT, "sigaction");
    return real;
}

/* Compilers inside of runtimes put a handler of their own in our place. */
int sigaction(int signal_number, const struct sigaction *action, struct sigaction *old)
{
    if (signal_number != SIGILL) {
        return real_sigaction()(signal_number, action, old);
    }
    const struct sigaction was = before;
    before = action ? *action : before;
    if (old) {
        *old = was;
    }
    return 0;
}

static void on_illegal_instruction(int signal_number, siginfo_t *about, void *context)
{
    ucontext_t *where = context;
    int length = 0;
    (void)about;
    if (emulate(where, (const uint8_t *)(intptr_t)where->uc_mcontext.gregs[REG_RIP], &length)) {
        where->uc_mcontext.gregs[REG_RIP] += length;
    } else {
        real_sigaction()(signal_number, &before, NULL); /* the instruction traps again, into that one */
    }
}

__attribute__((constructor)) static void install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    real_sigaction()(SIGILL, &action, &before);
}

#else

typedef int not_on_this_machine;

#endif
