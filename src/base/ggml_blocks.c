/* ggml's blocks of 32 columns whose codes are whole numbers: q8_0, q4_0, q4_1, q5_0, q5_1. All steps of writing are
 * float32's, each rounded: compilers may not join them. */
#include <math.h>
#include <string.h>

#include "base/blocks.h"
#include "base/half.h"

#define COLUMNS 32

/* What the formats of blocks have: a float16 scale d, a float16 minimum m or none, the fifth bits of codes or none,
 * then the codes: a byte each, or four bits, column j low and column j + 16 high.
 *
 *     value = d * (code - zero), or d * code + m
 *     code  = x / d + zero, or (x - m) / d, rounded by adding `half` and cutting off; q8_0: half away from zero */
struct block_format {
    int bits;    /* of a code */
    int has_min; /* d and m are (max - min) / most and min */
    int zero;    /* else d is the value of largest magnitude / -zero, with its sign; of q8_0 the magnitude / 127 */
    int bytes;
};

static const struct block_format q8_0_format = { 8, 0, 0, 34 };
static const struct block_format q4_0_format = { 4, 0, 8, 18 };
static const struct block_format q4_1_format = { 4, 1, 0, 20 };
static const struct block_format q5_0_format = { 5, 0, 16, 22 };
static const struct block_format q5_1_format = { 5, 1, 0, 24 };

static uint16_t get_ushort(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static void put_ushort(uint8_t *to, uint16_t bits)
{
    to[0] = (uint8_t)(bits & 0xff);
    to[1] = (uint8_t)(bits >> 8);
}

/* Where the fifth bits begin, and behind them the codes. */
static int fifth_bits_at(const struct block_format *format)
{
    return format->has_min ? 4 : 2;
}

static int codes_at(const struct block_format *format)
{
    return fifth_bits_at(format) + (format->bits == 5 ? 4 : 0);
}

static int get_code(const struct block_format *format, const uint8_t *block, int column)
{
    const uint8_t *codes = block + codes_at(format), *fifth = block + fifth_bits_at(format);
    if (format->bits == 8) {
        return (int8_t)codes[column];
    }
    int code = codes[column % 16] >> (column < 16 ? 0 : 4) & 15;
    if (format->bits == 5) {
        code |= (fifth[column / 8] >> column % 8 & 1) << 4;
    }
    return code - format->zero;
}

/* A product of 11 and 8 bits is exact; a sum with the minimum is rounded to float32 once. */
static double load_block(const struct block_format *format, const uint8_t *block, int column)
{
    const double value = half_to_double(get_ushort(block)) * get_code(format, block, column);
    return format->has_min ? (float)(value + half_to_double(get_ushort(block + 2))) : value;
}

static void put_code(const struct block_format *format, uint8_t *block, int column, int code)
{
    uint8_t *codes = block + codes_at(format), *fifth = block + fifth_bits_at(format);
    if (format->bits == 8) {
        codes[column] = (uint8_t)(int8_t)code;
        return;
    }
    codes[column % 16] |= (uint8_t)((code & 15) << (column < 16 ? 0 : 4));
    if (format->bits == 5) {
        fifth[column / 8] |= (uint8_t)((code >> 4) << column % 8);
    }
}

/* The values of a block that its scale depends on; a NaN among them is all of them. */
struct range {
    float least, most, largest; /* largest: in magnitude, the first one */
};

static struct range range_of(const float *values)
{
    struct range range = { values[0], values[0], 0.0f };
    for (int i = 0; i < COLUMNS; ++i) {
        if (isnan(values[i])) {
            return (struct range){ values[i], values[i], values[i] };
        }
        range.least = values[i] < range.least ? values[i] : range.least;
        range.most = values[i] > range.most ? values[i] : range.most;
        range.largest = fabsf(values[i]) > fabsf(range.largest) ? values[i] : range.largest;
    }
    return range;
}

/* Whether finite values are read back as finite ones: not where float16 has no scale, or no minimum, so large. */
static int block_is_held(const struct block_format *format, const float *values, const uint8_t *block)
{
    int all_finite = 1;
    for (int i = 0; i < COLUMNS; ++i) {
        all_finite &= isfinite(values[i]) != 0;
    }
    return !all_finite || (isfinite(half_to_double(get_ushort(block))) &&
                           (!format->has_min || isfinite(half_to_double(get_ushort(block + 2)))));
}

/* Codes are made with the scale before it is rounded to float16. A block that float16 has no scale for has NaN or
 * infinities where it is read. */
static int store_block(const struct block_format *format, const float *values, uint8_t *block)
{
    const struct range range = range_of(values);
    const int most = (1 << format->bits) - 1;
    const float least = format->has_min ? range.least : 0.0f;
    const float spread = range.most - range.least;
    const float scale = format->has_min     ? spread / (float)most
                        : format->bits == 8 ? fabsf(range.largest) / 127.0f
                                            : range.largest / (float)-format->zero;
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    memset(block, 0, (size_t)format->bytes);
    put_ushort(block, half_from_double(scale));
    if (format->has_min) {
        put_ushort(block + 2, half_from_double(least));
    }
    for (int i = 0; i < COLUMNS; ++i) {
        const float difference = values[i] - least;
        const volatile float units = difference * inverse;
        const float shifted = units + ((float)format->zero + 0.5f);
        const float code = format->bits == 8 ? roundf(units) : truncf(shifted);
        put_code(format, block, i, isfinite(code) ? (int)fminf(code, (float)most) : 0);
    }
    return block_is_held(format, values, block);
}

#define BLOCK_TYPE(name)                                                                                               \
    static double load_##name(const uint8_t *block, int column)                                                        \
    {                                                                                                                  \
        return load_block(&name##_format, block, column);                                                              \
    }                                                                                                                  \
    static int store_##name(const float *values, uint8_t *block)                                                       \
    {                                                                                                                  \
        return store_block(&name##_format, values, block);                                                             \
    }                                                                                                                  \
    const struct block_type name##_blocks = { load_##name, store_##name };
BLOCK_TYPE(q8_0)
BLOCK_TYPE(q4_0)
BLOCK_TYPE(q4_1)
BLOCK_TYPE(q5_0)
BLOCK_TYPE(q5_1)
