/* usage: amx_instructions
 *
 * The AMX instructions that clattn uses, against plain arithmetic: under amx_emulator.so it is the emulator
 * that is tested, on a CPU with AMX it is what the emulator imitates. The last line is "N passed, N failed,
 * N skipped"; exit status 77 where there is neither. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "device/x86.h"
#include "support/random.h"

#if defined(__x86_64__) && defined(__linux__)

#define LOAD(n) "tileloadd (%0,%1,1), %%tmm" #n
#define STORE "tilestored %%tmm0, (%0,%1,1)"
#define MULTIPLY "tdpbf16ps %%tmm2, %%tmm1, %%tmm0"
#define WITH_MEMORY(instruction, at, stride) __asm__ volatile(instruction ::"r"(at), "r"((int64_t)(stride)) : "memory")

static int passed, failed;

static void check(int good, const char *what)
{
    passed += good;
    failed += !good;
    if (!good) {
        printf("FAIL %s\n", what);
    }
}

/* Tiles 0 (sum), 1 and 2 (operands), of `rows` x `columns` floats and `pairs` bfloat16 pairs between. */
static void configure(int rows, int columns, int pairs)
{
    _Alignas(64) uint8_t shapes[64] = { 1 };
    const int row_bytes[3] = { columns * 4, pairs * 4, columns * 4 }, tile_rows[3] = { rows, rows, pairs };
    for (int tile = 0; tile < 3; ++tile) {
        shapes[16 + 2 * tile] = (uint8_t)row_bytes[tile];
        shapes[48 + tile] = (uint8_t)tile_rows[tile];
    }
    __asm__ volatile("ldtilecfg (%0)" ::"r"(shapes) : "memory");
}

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float widen(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof(x));
    return flush(x);
}

/* One element as the manual has it: even and odd columns summed apart, each step rounded and flushed. */
static float element(float sum, const uint16_t *a, const uint16_t *b, int columns, int pairs)
{
    float even = 0, odd = 0;
    for (int k = 0; k < pairs; ++k) {
        even = flush(fmaf(widen(a[2 * k]), widen(b[k * 2 * columns]), even));
        odd = flush(fmaf(widen(a[2 * k + 1]), widen(b[k * 2 * columns + 1]), odd));
    }
    return flush(flush(sum) + flush(even + odd));
}

static int same(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

/* Numbers of every kind: ordinary ones, some subnormal, infinite or NaN, some that make sums subnormal. */
static uint16_t any_bfloat16(struct random *random, int kind)
{
    const uint16_t special[] = { 0x0000, 0x8000, 0x0001, 0x807f, 0x7f80, 0xff80, 0x7fc1, 0x0080, 0x1fff };
    const uint64_t bits = random_bits(random);
    if (kind == 1 && bits % 16 == 0) {
        return special[bits / 16 % (sizeof(special) / sizeof(special[0]))];
    }
    const uint16_t exponent = (uint16_t)(kind == 2 ? 60 + bits % 8 : 120 + bits % 12);
    return (uint16_t)((bits >> 20 & 0x807f) | (uint64_t)exponent << 7);
}

static void check_product(struct random *random, int rows, int columns, int pairs, int kind)
{
    enum { PADDING = 5 };
    uint16_t a[16][32], b[16][32];
    float sum[16][16 + PADDING], want[16][16], untouched[PADDING];
    memset(sum, 0x5a, sizeof(sum));
    memcpy(untouched, sum[0], sizeof(untouched));
    for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 32; ++j) {
            a[i][j] = any_bfloat16(random, kind);
            b[i][j] = any_bfloat16(random, kind);
        }
    }
    int good = 1;
    for (int m = 0; m < rows; ++m) {
        for (int n = 0; n < columns; ++n) {
            sum[m][n] = kind == 2 ? 0x1p-130f * (float)(m - n) : widen(any_bfloat16(random, kind));
            want[m][n] = element(sum[m][n], a[m], &b[0][2 * n], 16, pairs);
        }
    }
    configure(rows, columns, pairs);
    WITH_MEMORY(LOAD(0), sum, sizeof(sum[0]));
    WITH_MEMORY(LOAD(1), a, sizeof(a[0]));
    WITH_MEMORY(LOAD(2), b, sizeof(b[0]));
    WITH_MEMORY(MULTIPLY, sum, 0);
    WITH_MEMORY(STORE, sum, sizeof(sum[0]));
    __asm__ volatile("tilerelease" ::: "memory");
    for (int m = 0; m < rows; ++m) {
        for (int n = 0; n < columns; ++n) {
            good &= same(sum[m][n], want[m][n]);
        }
        good &= memcmp(&sum[m][columns], untouched, sizeof(untouched)) == 0;
    }
    char what[80];
    snprintf(what, sizeof(what), "%d x %d tile, %d pairs, numbers of kind %d", rows, columns, pairs, kind);
    check(good, what);
}

static void check_zero(void)
{
    float sum[16][16];
    int good = 1;
    memset(sum, 0x5a, sizeof(sum));
    configure(16, 16, 16);
    WITH_MEMORY(LOAD(0), sum, sizeof(sum[0]));
    __asm__ volatile("tilezero %%tmm0" ::: "memory");
    WITH_MEMORY(STORE, sum, sizeof(sum[0]));
    __asm__ volatile("tilerelease" ::: "memory");
    for (int i = 0; i < 256; ++i) {
        good &= sum[i / 16][i % 16] == 0;
    }
    check(good, "tilezero");
}

static int run(void)
{
    struct random random = random_start(1, 0);
    check_zero();
    for (int kind = 0; kind < 3; ++kind) {
        check_product(&random, 16, 16, 16, kind);
        check_product(&random, 5, 16, 7, kind);
        check_product(&random, 16, 3, 16, kind);
        check_product(&random, 1, 1, 1, kind);
    }
    return failed != 0;
}

#else

static int passed, failed;

static int run(void)
{
    return 1;
}

#endif

int main(void)
{
    struct text why = TEXT_INIT;
    int has_tiles = x86_has_amx_bf16(NULL, &why);
    if (!has_tiles) {
        printf("AMX: %s\n0 passed, 0 failed, 1 skipped\n", why.data ? why.data : "");
        text_free(&why);
        return 77;
    }
    int status = run();
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return status;
}
