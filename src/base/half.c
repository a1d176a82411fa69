/* Conversions of storage types. Both 16-bit formats are one struct: they differ only in where the
 * exponent ends. */
#include "base/half.h"

#include <math.h>
#include <string.h>

struct format {
    int mantissa_bits;
    int min_exponent;  /* of normal numbers, and the scale of subnormal ones */
    uint16_t infinity; /* bits of +infinity: all exponent bits */
    uint16_t quiet;    /* the mantissa's top bit, which makes a NaN quiet */
};

static const struct format float16_format = { 10, -14, 0x7c00, 0x0200 };
static const struct format bfloat16_format = { 7, -126, 0x7f80, 0x0040 };

static double widen(uint16_t bits, const struct format *format)
{
    int exponent = (bits & format->infinity) >> format->mantissa_bits;
    int mantissa = bits & ((1 << format->mantissa_bits) - 1);
    double magnitude;
    if ((bits & format->infinity) == format->infinity) {
        magnitude = mantissa ? (double)NAN : (double)INFINITY;
    } else {
        int hidden = exponent ? 1 << format->mantissa_bits : 0;
        int scale = (exponent ? exponent - 1 : 0) + format->min_exponent - format->mantissa_bits;
        magnitude = ldexp(hidden + mantissa, scale);
    }
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* Counts the value in units of its last place and rounds that count: a carry runs by itself into the
 * exponent above the mantissa, and past the largest number into infinity. */
static uint16_t narrow(double value, const struct format *format)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value)) {
        return (uint16_t)(sign | format->infinity | format->quiet);
    }
    if (isinf(value)) {
        return (uint16_t)(sign | format->infinity);
    }
    int exponent;
    (void)frexp(magnitude, &exponent); /* magnitude in [2^(exponent-1), 2^exponent) */
    exponent -= 1;
    if (exponent < format->min_exponent || !(magnitude > 0)) {
        exponent = format->min_exponent;
    }
    int units = (int)rint(ldexp(magnitude, format->mantissa_bits - exponent));
    int bits = ((exponent - format->min_exponent) << format->mantissa_bits) + units;
    return (uint16_t)(sign | (bits < format->infinity ? bits : format->infinity));
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

double type_load(clattn_type type, const void *data, int64_t index)
{
    switch (type) {
    case CLATTN_FLOAT32:
        return ((const float *)data)[index];
    case CLATTN_FLOAT64:
        return ((const double *)data)[index];
    case CLATTN_FLOAT16:
        return half_to_double(((const uint16_t *)data)[index]);
    case CLATTN_BFLOAT16:
        return bfloat16_to_double(((const uint16_t *)data)[index]);
    case CLATTN_TYPE_NONE:
        break;
    }
    return 0;
}

void type_store(clattn_type type, void *data, int64_t index, double value)
{
    switch (type) {
    case CLATTN_FLOAT32:
        ((float *)data)[index] = (float)value;
        break;
    case CLATTN_FLOAT64:
        ((double *)data)[index] = value;
        break;
    case CLATTN_FLOAT16:
        ((uint16_t *)data)[index] = half_from_double(value);
        break;
    case CLATTN_BFLOAT16:
        ((uint16_t *)data)[index] = bfloat16_from_double(value);
        break;
    case CLATTN_TYPE_NONE:
        break;
    }
}
