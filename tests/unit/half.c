/* float16 and bfloat16 conversions, over every bit pattern. The expected values do not come from the code
 * under test: neighbours are ordered by their bits, and what lies between them is computed in double. */
#include "base/half.h"

#include <math.h>
#include <string.h>

#include "suite.h"

struct format {
    double (*widen)(uint16_t);
    uint16_t (*narrow)(double);
    uint16_t infinity;
};

static const struct format formats[] = {
    { half_to_double, half_from_double, 0x7c00 },
    { bfloat16_to_double, bfloat16_from_double, 0x7f80 },
};

START_TEST(test_known_values)
{
    ck_assert_double_eq(half_to_double(0x3c00), 1);
    ck_assert_double_eq(half_to_double(0xc000), -2);
    ck_assert_double_eq(half_to_double(0x7bff), 65504);
    ck_assert_double_eq(half_to_double(0x0001), ldexp(1, -24));
    ck_assert_double_eq(half_to_double(0x3555), 0.333251953125);
    ck_assert_double_eq(bfloat16_to_double(0x3f80), 1);
    ck_assert_double_eq(bfloat16_to_double(0x4049), 3.140625);
    ck_assert_uint_eq(half_from_double(65519.99), 0x7bff);
    ck_assert_uint_eq(half_from_double(65520), 0x7c00);
    ck_assert_uint_eq(half_from_double(-1e300), 0xfc00);
    ck_assert_uint_eq(half_from_double(ldexp(1, -25)), 0);
    ck_assert_uint_eq(half_from_double(-ldexp(1.0001, -25)), 0x8001);
    ck_assert_uint_eq(bfloat16_from_double(3.14159265358979), 0x4049);
    ck_assert_uint_eq(bfloat16_from_double(1e39), 0x7f80);
}
END_TEST

/* A float whose lower half is zero is a bfloat16: the format's definition. */
START_TEST(test_bfloat16_is_half_a_float)
{
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        uint32_t pattern = bits << 16;
        float value;
        memcpy(&value, &pattern, sizeof(value));
        if (!isnan(value)) {
            ck_assert_double_eq(bfloat16_to_double((uint16_t)bits), (double)value);
        }
    }
}
END_TEST

START_TEST(test_every_pattern_comes_back)
{
    for (size_t f = 0; f < 2; ++f) {
        for (uint32_t bits = 0; bits < 0x10000; ++bits) {
            double value = formats[f].widen((uint16_t)bits);
            uint16_t back = formats[f].narrow(value);
            if (isnan(value)) {
                ck_assert(isnan(formats[f].widen(back)));
                ck_assert_uint_eq(back & 0x8000, bits & 0x8000);
            } else {
                ck_assert_uint_eq(back, bits);
            }
        }
    }
}
END_TEST

/* Between two neighbours: the nearer one, and the even one in the middle. */
START_TEST(test_rounds_to_nearest_even)
{
    for (size_t f = 0; f < 2; ++f) {
        for (uint32_t bits = 0; bits + 1 < formats[f].infinity; ++bits) {
            double low = formats[f].widen((uint16_t)bits), high = formats[f].widen((uint16_t)(bits + 1));
            double middle = low + (high - low) / 2;
            ck_assert_double_lt(low, high);
            ck_assert_uint_eq(formats[f].narrow(middle), bits + (bits & 1));
            ck_assert_uint_eq(formats[f].narrow(nextafter(middle, low)), bits);
            ck_assert_uint_eq(formats[f].narrow(nextafter(middle, high)), bits + 1);
            ck_assert_uint_eq(formats[f].narrow(-middle), 0x8000 | (bits + (bits & 1)));
        }
    }
}
END_TEST

START_TEST(test_zeros_and_infinities)
{
    for (size_t f = 0; f < 2; ++f) {
        ck_assert_uint_eq(formats[f].narrow(0.0), 0);
        ck_assert_uint_eq(formats[f].narrow(-0.0), 0x8000);
        ck_assert_uint_eq(formats[f].narrow((double)INFINITY), formats[f].infinity);
        ck_assert_uint_eq(formats[f].narrow(-(double)INFINITY), 0x8000 | formats[f].infinity);
        ck_assert_uint_eq(formats[f].narrow(5e-324), 0);
        ck_assert(signbit(formats[f].widen(0x8000)));
    }
}
END_TEST

/* The eight-bit ones: e5m2 is the upper half of a float16; e4m3 by hand, and by its neighbours. */
START_TEST(test_eight_bits)
{
    for (int bits = 0; bits < 0x100; ++bits) {
        const double e5m2 = e5m2_to_double((uint8_t)bits), half = half_to_double((uint16_t)(bits << 8));
        ck_assert(isnan(half) ? isnan(e5m2) : e5m2 == half);
        ck_assert(isinf(half) || isnan(half) || e5m2_from_double(e5m2) == bits);
        const double e4m3 = e4m3_to_double((uint8_t)bits);
        ck_assert_int_eq(isnan(e4m3), (bits & 0x7f) == 0x7f);
        ck_assert_int_eq(e4m3_from_double(e4m3), bits);
        if ((bits & 0x7f) < 0x7e) {
            const double next = e4m3_to_double((uint8_t)(bits + 1)), middle = (e4m3 + next) / 2;
            ck_assert_int_eq(e4m3_from_double(middle), bits + (bits & 1));
            ck_assert_int_eq(e4m3_from_double(nextafter(middle, e4m3)), bits);
            ck_assert_int_eq(e4m3_from_double(nextafter(middle, next)), bits + 1);
        }
    }
    ck_assert_double_eq(e4m3_to_double(0x38), 1);
    ck_assert_double_eq(e4m3_to_double(0x01), ldexp(1, -9));
    ck_assert_double_eq(e4m3_to_double(0xfe), -448);
    ck_assert_int_eq(e4m3_from_double(1e9), 0x7e);
    ck_assert_int_eq(e4m3_from_double(-(double)INFINITY), 0xfe);
    ck_assert_int_eq(e5m2_from_double(65535), 0x7b);
    ck_assert_int_eq(e5m2_from_double(-(double)INFINITY), 0xfb);
    ck_assert_int_eq(e5m2_from_double((double)NAN) & 0x7c, 0x7c);
}
END_TEST

SUITE("half", test_known_values, test_bfloat16_is_half_a_float, test_every_pattern_comes_back,
      test_rounds_to_nearest_even, test_zeros_and_infinities, test_eight_bits)
