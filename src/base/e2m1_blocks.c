/* ggml's blocks of 4-bit floats, e2m1: one bit of sign, two of exponent, one of mantissa.
 *
 *     mxfp4_ggml   32 columns: scale e8m0, a power of two; 16 bytes, column j low, column j + 16 high
 *     nvfp4_ggml   64 columns: 4 scales e4m3, of 16 columns each; of these 8 bytes, column j low, column j + 8 high
 *
 *     value = e2m1(code) * scale, exact
 *     code  = the nearest, at most 6 in size; of two the smaller; none has the sign alone */
#include <math.h>
#include <string.h>

#include "base/blocks.h"
#include "base/half.h"

#define MXFP4_COLUMNS 32
#define NVFP4_COLUMNS 64
#define NVFP4_RUN 16  /* columns that share a scale */
#define NVFP4_CODES 4 /* where they begin */
#define E8M0_NAN 255

static float e2m1_to_float(int code)
{
    static const float size[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    return code & 8 ? -size[code & 7] : size[code & 7];
}

/* A scale that is NaN, or 0, has code 0. */
static int e2m1_code(float value, float scale)
{
    static const float halfway[7] = { 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5 };
    int code = 0;
    for (int i = 0; i < 7 && scale > 0; ++i) {
        code += fabsf(value) > halfway[i] * scale;
    }
    return code > 0 && value < 0 ? code | 8 : code;
}

/* The largest magnitude; NaN where a value is not finite. */
static float largest_of(const float *values, int count)
{
    float largest = 0;
    for (int i = 0; i < count; ++i) {
        if (!isfinite(values[i])) {
            return NAN;
        }
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    }
    return largest;
}

/* Column j and column j + half of a run of codes. */
static int get_nibble(const uint8_t *codes, int column, int half)
{
    return codes[column % half] >> (column < half ? 0 : 4) & 15;
}

static void put_nibbles(const float *values, int half, float scale, uint8_t *codes)
{
    for (int i = 0; i < half; ++i) {
        codes[i] = (uint8_t)(e2m1_code(values[i], scale) | e2m1_code(values[i + half], scale) << 4);
    }
}

/* ---- mxfp4_ggml --------------------------------------------------------------------------------- */

static float e8m0_to_float(uint8_t bits)
{
    return bits == E8M0_NAN ? NAN : ldexpf(1, bits - 127);
}

/* By which the largest magnitude is 4 to 8; the smallest one for less, and for zeros. */
static uint8_t e8m0_of(float largest)
{
    int exponent;
    if (isnan(largest)) {
        return E8M0_NAN;
    }
    frexpf(largest, &exponent);
    const int biased = exponent - 1 - 2 + 127;
    return (uint8_t)(largest == 0 || biased < 0 ? 0 : biased);
}

static double load_mxfp4(const uint8_t *block, int column)
{
    return e2m1_to_float(get_nibble(block + 1, column, MXFP4_COLUMNS / 2)) * e8m0_to_float(block[0]);
}

static int store_mxfp4(const float *values, uint8_t *block)
{
    block[0] = e8m0_of(largest_of(values, MXFP4_COLUMNS));
    put_nibbles(values, MXFP4_COLUMNS / 2, e8m0_to_float(block[0]), block + 1);
    return 1;
}

const struct block_type mxfp4_ggml_blocks = { load_mxfp4, store_mxfp4 };

/* ---- nvfp4_ggml --------------------------------------------------------------------------------- */

static float run_scale(const uint8_t *block, int column)
{
    return (float)e4m3_to_double(block[column / NVFP4_RUN] & 0x7f);
}

static double load_nvfp4(const uint8_t *block, int column)
{
    const uint8_t *codes = block + NVFP4_CODES + column / NVFP4_RUN * (NVFP4_RUN / 2);
    return e2m1_to_float(get_nibble(codes, column % NVFP4_RUN, NVFP4_RUN / 2)) * run_scale(block, column);
}

static int store_nvfp4(const float *values, uint8_t *block)
{
    for (int c = 0; c < NVFP4_COLUMNS; c += NVFP4_RUN) {
        block[c / NVFP4_RUN] = e4m3_from_double(largest_of(values + c, NVFP4_RUN) / 6);
        put_nibbles(values + c, NVFP4_RUN / 2, run_scale(block, c), block + NVFP4_CODES + c / 2);
    }
    return 1;
}

const struct block_type nvfp4_ggml_blocks = { load_nvfp4, store_nvfp4 };
