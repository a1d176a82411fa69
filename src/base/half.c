/* Conversions of storage types. All small formats are one struct: they differ only in where the exponent ends, and in
 * what stands past the largest number. */
#include "base/half.h"

#include <math.h>
#include <string.h>

struct format {
    int mantissa_bits;
    int min_exponent;       /* of normal numbers, and the scale of subnormal ones */
    uint16_t first_special; /* bits of +infinity, or of a NaN where the format has no infinity: numbers are below */
    uint16_t nan;           /* a quiet one */
    uint16_t sign;
    uint16_t most; /* what is past the largest number becomes: infinity, or that number */
};

static const struct format float16_format = { 10, -14, 0x7c00, 0x7e00, 0x8000, 0x7c00 };
static const struct format bfloat16_format = { 7, -126, 0x7f80, 0x7fc0, 0x8000, 0x7f80 };
static const struct format e4m3_format = { 3, -6, 0x7f, 0x7f, 0x80, 0x7e };
static const struct format e5m2_format = { 2, -14, 0x7c, 0x7e, 0x80, 0x7b };
static const struct format e2m1_format = { 1, 0, 8, 0, 8, 7 };

static double widen(uint16_t bits, const struct format *format)
{
    const uint16_t size = (uint16_t)(bits & (format->sign - 1));
    const int exponent = size >> format->mantissa_bits, mantissa = size & ((1 << format->mantissa_bits) - 1);
    double magnitude;
    if (size >= format->first_special) {
        magnitude = size == format->nan || mantissa ? (double)NAN : (double)INFINITY;
    } else {
        int hidden = exponent ? 1 << format->mantissa_bits : 0;
        int scale = (exponent ? exponent - 1 : 0) + format->min_exponent - format->mantissa_bits;
        magnitude = ldexp(hidden + mantissa, scale);
    }
    return bits & format->sign ? -magnitude : magnitude;
}

/* Counts the value in units of its last place and rounds that count: a carry runs by itself into the
 * exponent above the mantissa, and past the largest number. */
static uint16_t narrow(double value, const struct format *format)
{
    const uint16_t sign = signbit(value) ? format->sign : 0;
    double magnitude = fabs(value);
    if (isnan(value)) {
        return (uint16_t)(sign | format->nan);
    }
    if (isinf(value)) {
        return (uint16_t)(sign | format->most);
    }
    int exponent;
    (void)frexp(magnitude, &exponent); /* magnitude in [2^(exponent-1), 2^exponent) */
    exponent -= 1;
    if (exponent < format->min_exponent || !(magnitude > 0)) {
        exponent = format->min_exponent;
    }
    int units = (int)rint(ldexp(magnitude, format->mantissa_bits - exponent));
    int bits = ((exponent - format->min_exponent) << format->mantissa_bits) + units;
    return (uint16_t)(sign | (bits < format->first_special ? bits : format->most));
}

double half_to_double(uint16_t bits)
{
    return widen(bits, &float16_format);
}

uint16_t half_from_double(double value)
{
    return narrow(value, &float16_format);
}

double bfloat16_to_double(uint16_t bits)
{
    return widen(bits, &bfloat16_format);
}

uint16_t bfloat16_from_double(double value)
{
    return narrow(value, &bfloat16_format);
}

double e4m3_to_double(uint8_t bits)
{
    return widen(bits, &e4m3_format);
}

uint8_t e4m3_from_double(double value)
{
    return (uint8_t)narrow(value, &e4m3_format);
}

double e5m2_to_double(uint8_t bits)
{
    return widen(bits, &e5m2_format);
}

uint8_t e5m2_from_double(double value)
{
    return (uint8_t)narrow(value, &e5m2_format);
}

double e2m1_to_double(uint8_t bits)
{
    return widen(bits, &e2m1_format);
}

uint8_t e2m1_from_double(double value)
{
    return isnan(value) ? 0 : (uint8_t)narrow(value, &e2m1_format);
}

double e8m0_to_double(uint8_t bits)
{
    return bits == 255 ? (double)NAN : ldexp(1, bits - 127);
}

uint8_t e8m0_from_double(double value)
{
    int exponent;
    (void)frexp(value, &exponent);
    return (uint8_t)(isnan(value) ? 255 : !(value > 0x1p-127) ? 0 : value >= 0x1p127 ? 254 : exponent - 1 + 127);
}
