/* Storage types: sizes, and rows of host memory to codes and back. The bytes expected of blocks are written by hand
 * from the formats; those that ggml makes are in tests/cases, which solve_cases holds clattn_quantise to. */
#include "base/stored_types.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "suite.h"

START_TEST(test_sizes)
{
    static const struct {
        clattn_type type;
        const char *name;
        int size, columns, row_96;
    } expected[] = {
        { CLATTN_TYPE_NONE, "none", 0, 0, 0 },
        { CLATTN_FLOAT32, "float32", 4, 1, 384 },
        { CLATTN_FLOAT16, "float16", 2, 1, 192 },
        { CLATTN_BFLOAT16, "bfloat16", 2, 1, 192 },
        { CLATTN_FLOAT64, "float64", 8, 1, 768 },
        { CLATTN_INT8, "int8", 1, 1, 96 },
        { CLATTN_E4M3, "e4m3", 1, 1, 96 },
        { CLATTN_E5M2, "e5m2", 1, 1, 96 },
        { CLATTN_Q8_0, "q8_0", 34, 32, 102 },
        { CLATTN_Q4_0, "q4_0", 18, 32, 54 },
        { CLATTN_Q4_1, "q4_1", 20, 32, 60 },
        { CLATTN_Q5_0, "q5_0", 22, 32, 66 },
        { CLATTN_Q5_1, "q5_1", 24, 32, 72 },
        { CLATTN_MXFP4_GGML, "mxfp4_ggml", 17, 32, 51 },
        { CLATTN_NVFP4_GGML, "nvfp4_ggml", 36, 64, 0 },
        { CLATTN_INT4, "int4", 1, 2, 48 },
        { CLATTN_U8, "u8", 1, 1, 96 },
        { CLATTN_U4, "u4", 1, 2, 48 },
        { CLATTN_MXFP8, "mxfp8", 1, 1, 96 },
        { CLATTN_MXFP4, "mxfp4", 1, 2, 48 },
        { CLATTN_NVFP4, "nvfp4", 1, 2, 48 },
        { CLATTN_E8M0, "e8m0", 1, 1, 96 },
    };
    ck_assert_uint_eq(sizeof(expected) / sizeof(expected[0]), STORED_TYPES);
    for (int i = 0; i < STORED_TYPES; ++i) {
        const clattn_type type = expected[i].type;
        ck_assert_int_eq(type, i);
        ck_assert_str_eq(clattn_type_name(type), expected[i].name);
        ck_assert_uint_eq(clattn_type_size(type), (size_t)expected[i].size);
        ck_assert_int_eq(clattn_type_columns(type), expected[i].columns);
        ck_assert_uint_eq(clattn_row_bytes(type, 96), (size_t)expected[i].row_96);
        ck_assert_int_eq(type_is_blocks(type), type >= CLATTN_Q8_0 && type <= CLATTN_NVFP4_GGML);
        ck_assert_int_eq(type_takes_scales(type), type >= CLATTN_INT8 && !type_is_blocks(type) && type != CLATTN_E8M0);
        ck_assert_int_eq(type_is_float(type), type >= CLATTN_FLOAT32 && type <= CLATTN_FLOAT64);
    }
    ck_assert_uint_eq(clattn_row_bytes(CLATTN_Q4_0, 33), 0);
    ck_assert_uint_eq(clattn_row_bytes(CLATTN_Q4_0, -32), 0);
    ck_assert_uint_eq(clattn_row_bytes(CLATTN_NVFP4_GGML, 128), 72);
    ck_assert_uint_eq(clattn_row_bytes(CLATTN_INT4, 7), 0);
    ck_assert_uint_eq(clattn_row_bytes(CLATTN_FLOAT64, INT64_MAX), 0);
    ck_assert_uint_eq(clattn_row_bytes((clattn_type)99, 32), 0);
    ck_assert_int_eq(clattn_type_columns((clattn_type)-1), 0);
    ck_assert_int_eq(type_is_float((clattn_type)99), 0);
}
END_TEST

START_TEST(test_load_and_store_by_type)
{
    for (int type = CLATTN_FLOAT32; type <= CLATTN_E5M2; ++type) {
        double memory[4] = { 0 };
        type_store((clattn_type)type, memory, 2, -2);
        type_store((clattn_type)type, memory, 3, 3);
        ck_assert_double_eq(type_load((clattn_type)type, memory, 2), -2);
        ck_assert_double_eq(type_load((clattn_type)type, memory, 3), 3);
        ck_assert_double_eq(type_load((clattn_type)type, memory, 1), 0);
    }
}
END_TEST

/* d = 2, m = -3 or none: a block whose codes are 0, 1, 2, .. as far as they go. */
static void put_half(unsigned char *to, double value)
{
    const uint16_t bits = half_from_double(value);
    to[0] = (unsigned char)(bits & 0xff);
    to[1] = (unsigned char)(bits >> 8);
}

START_TEST(test_blocks_are_read)
{
    unsigned char block[34];
    float values[32];
    put_half(block, 2);
    for (int i = 0; i < 32; ++i) {
        block[2 + i] = (unsigned char)(i * 8 - 128);
    }
    ck_assert_int_eq(clattn_dequantise(CLATTN_Q8_0, 32, block, NULL, 0, values), CLATTN_OK);
    for (int i = 0; i < 32; ++i) {
        ck_assert_float_eq(values[i], (float)(2 * (i * 8 - 128)));
    }
    for (int type = CLATTN_Q4_0; type <= CLATTN_Q5_1; ++type) {
        const int has_min = type == CLATTN_Q4_1 || type == CLATTN_Q5_1, five = type >= CLATTN_Q5_0;
        unsigned char *at = block + 2;
        if (has_min) {
            put_half(at, -3);
            at += 2;
        }
        if (five) { /* of columns 1, 8 and 31 */
            memcpy(at, "\x02\x01\x00\x80", 4);
            at += 4;
        }
        for (int i = 0; i < 16; ++i) {
            at[i] = (unsigned char)(i | (15 - i) << 4);
        }
        ck_assert_int_eq(clattn_dequantise((clattn_type)type, 32, block, NULL, 0, values), CLATTN_OK);
        for (int i = 0; i < 32; ++i) {
            const int fifth = five && (i == 1 || i == 8 || i == 31) ? 16 : 0;
            const int code = (i < 16 ? i : 31 - i) + fifth, zero = has_min ? 0 : five ? 16 : 8;
            ck_assert_float_eq(values[i], (float)(2 * (code - zero) - (has_min ? 3 : 0)));
            ck_assert_double_eq(type_load((clattn_type)type, block, i), (double)values[i]);
        }
    }
}
END_TEST

/* Ties by powers of two: d = 1 or -1, half away from zero in q8_0, upwards elsewhere. */
START_TEST(test_blocks_are_written)
{
    float values[32] = { 127, 0.5f, -0.5f, 1.5f, 2.4f, -126.5f };
    unsigned char row[34];
    ck_assert_int_eq(clattn_quantise(CLATTN_Q8_0, 32, values, NULL, 0, row), CLATTN_OK);
    const unsigned char q8[] = { 0x00, 0x3c, 127, 1, 0xff, 2, 2, 0x81, 0 };
    ck_assert_mem_eq(row, q8, sizeof(q8));

    const float fours[32] = { 0.5f, -8, -7.5f, 7, 7.5f, [17] = 8 };
    ck_assert_int_eq(clattn_quantise(CLATTN_Q4_0, 32, fours, NULL, 0, row), CLATTN_OK);
    /* d = 1 by the first of the largest; 0.5 -> 9, -8 -> 0, -7.5 -> 1, 7 -> 15, 7.5 -> 16, cut to 15; 8 -> 15 */
    const unsigned char q4[] = { 0x00, 0x3c, 0x89, 0xf0, 0x81, 0x8f, 0x8f, 0x88 };
    ck_assert_mem_eq(row, q4, sizeof(q4));

    float ramp[32];
    for (int i = 0; i < 32; ++i) {
        ramp[i] = (float)i - 5;
    }
    ck_assert_int_eq(clattn_quantise(CLATTN_Q5_1, 32, ramp, NULL, 0, row), CLATTN_OK);
    const unsigned char q5[] = { 0x00, 0x3c, 0x00, 0xc5, 0x00, 0x00, 0xff, 0xff, 0x00, 0x11, 0x22 };
    ck_assert_mem_eq(row, q5, sizeof(q5));

    /* Zeros: a scale of -0 where it is a value / -8, as in ggml. */
    const float zeros[32] = { -0.0f };
    ck_assert_int_eq(clattn_quantise(CLATTN_Q4_0, 32, zeros, NULL, 0, row), CLATTN_OK);
    ck_assert_mem_eq(row, "\x00\x80\x88\x88", 4);
    ck_assert_int_eq(clattn_quantise(CLATTN_Q4_1, 32, zeros, NULL, 0, row), CLATTN_OK);
    ck_assert_mem_eq(row, "\x00\x00\x00\x80\x00", 5);
}
END_TEST

/* Each code of e2m1 in both nibbles: column j, and the second half's from above downwards. */
static const float e2m1[16] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6 };

START_TEST(test_blocks_of_e2m1_are_read)
{
    unsigned char mx[17] = { 127 + 3 }, nv[36] = { 0x38, 0x3c, 0x01, 0x7e };
    float values[64];
    for (int i = 0; i < 16; ++i) {
        mx[1 + i] = (unsigned char)(i | (15 - i) << 4);
    }
    ck_assert_int_eq(clattn_dequantise(CLATTN_MXFP4_GGML, 32, mx, NULL, 0, values), CLATTN_OK);
    for (int i = 0; i < 32; ++i) {
        ck_assert_float_eq(values[i], 8 * e2m1[i < 16 ? i : 31 - i]);
    }
    mx[0] = 0;
    ck_assert_double_eq(type_load(CLATTN_MXFP4_GGML, mx, 7), 6 * 0x1p-127);
    mx[0] = 255;
    ck_assert(isnan(type_load(CLATTN_MXFP4_GGML, mx, 0)));

    const float scales[4] = { 1, 1.5f, 0x1p-9f, 448 };
    for (int i = 0; i < 32; ++i) { /* columns 0 to 7 low, 8 to 15 high, of each 16 */
        nv[4 + i] = (unsigned char)(i % 8 | (15 - i % 8) << 4);
    }
    ck_assert_int_eq(clattn_dequantise(CLATTN_NVFP4_GGML, 64, nv, NULL, 0, values), CLATTN_OK);
    for (int i = 0; i < 64; ++i) {
        const int at = i % 16;
        ck_assert_float_eq(values[i], scales[i / 16] * e2m1[at < 8 ? at : 15 - at % 8]);
    }
    nv[2] = 0xff;
    ck_assert(isnan(type_load(CLATTN_NVFP4_GGML, nv, 32)) && !isnan(type_load(CLATTN_NVFP4_GGML, nv, 48)));
}
END_TEST

/* Halfway the smaller code, beyond 6 that, no sign alone; scales at their edges. */
START_TEST(test_blocks_of_e2m1_are_written)
{
    unsigned char row[36];
    const float ties[32] = { 0.25f,       0.75f,  1.25f, 1.75f,  2.5f, 3.5f,  5, 7.99f,   -0.25f,
                             -0.2500001f, -0.75f, -0.0f, -5.01f, -7,   0.26f, 4, [16] = 6 };
    ck_assert_int_eq(clattn_quantise(CLATTN_MXFP4_GGML, 32, ties, NULL, 0, row), CLATTN_OK);
    const unsigned char mx[17] = { 127,  0x70, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
                                   0x00, 0x09, 0x09, 0x00, 0x0f, 0x0f, 0x01, 0x06 };
    ck_assert_mem_eq(row, mx, sizeof(mx));
    const float powers[3] = { 8, 0x1p-126f, 0x1p127f };
    const int exponents[3] = { 128, 0, 252 };
    for (int i = 0; i < 3; ++i) {
        const float one[32] = { powers[i] };
        ck_assert_int_eq(clattn_quantise(CLATTN_MXFP4_GGML, 32, one, NULL, 0, row), CLATTN_OK);
        ck_assert_int_eq(row[0], exponents[i]);
    }
    const float zeros[64] = { -0.0f };
    ck_assert_int_eq(clattn_quantise(CLATTN_MXFP4_GGML, 32, zeros, NULL, 0, row), CLATTN_OK);
    ck_assert_mem_eq(row, "\0\0\0", 3);
    /* Six times the scale: 1 3/16 to even, 7.6 / 512 to the smallest normal, 600 to 448, 1 / 2048 to none. */
    const float largest[4] = { 6 * 1.1875f, 6 * 7.6f / 512, 3600, 6.0f / 2048 };
    float values[64] = { 0 };
    for (int i = 0; i < 4; ++i) {
        values[16 * i + 9] = -largest[i];
    }
    ck_assert_int_eq(clattn_quantise(CLATTN_NVFP4_GGML, 64, values, NULL, 0, row), CLATTN_OK);
    ck_assert_mem_eq(row, "\x3a\x08\x7e\x00", 4);
    const unsigned char codes[4] = { 0xf0, 0xf0, 0xf0, 0x00 }; /* 5.7, 5.7, 8.04, none */
    for (int i = 0; i < 4; ++i) {
        ck_assert_int_eq(row[4 + 8 * i + 1], codes[i]);
    }
}
END_TEST

/* By hand, from the formats: scale, zero point and codes of rows of few values. */
START_TEST(test_scales_are_made)
{
    const float range[4] = { -1, 4, 0.5f, 1 }, same[2] = { 0, 0 }, not_finite[2] = { 1, INFINITY };
    float scales[2], zeros[2], back[36];
    uint8_t codes[36], bytes[3];
    clattn_row_scales by = { scales, zeros, 0, 1 };
    ck_assert_int_eq(clattn_quantise_row(CLATTN_U4, 4, range, 1, &by, codes), CLATTN_OK);
    ck_assert_float_eq(scales[0], 5.0f / 15);
    ck_assert_float_eq(zeros[0], 1 / (5.0f / 15));
    ck_assert_uint_eq(codes[0], 0x0f); /* the first column in the high four bits; 4.5 goes away from zero */
    ck_assert_uint_eq(codes[1], 0x56);
    ck_assert_int_eq(clattn_dequantise_row(CLATTN_U4, 4, codes, &by, back), CLATTN_OK);
    ck_assert_float_eq_tol(back[1], 4, 1e-6f);
    ck_assert_int_eq(clattn_quantise_row(CLATTN_U8, 2, same, 1, &by, codes), CLATTN_OK);
    ck_assert_float_eq(scales[0], 0.0001f);
    ck_assert_float_eq(zeros[0], 0);
    ck_assert_int_eq(clattn_quantise_row(CLATTN_U8, 2, not_finite, 1, &by, codes), CLATTN_OK);
    ck_assert(isnan(scales[0]) && isnan(zeros[0]));
    float halves[36] = { 6, -0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -0.0f };
    for (int i = 32; i < 36; ++i) {
        halves[i] = 0.001f * (float)(i - 31);
    }
    by = (clattn_row_scales){ bytes, NULL, 0, 1 };
    ck_assert_int_eq(clattn_quantise_row(CLATTN_MXFP4, 36, halves, 1, &by, codes), CLATTN_OK);
    ck_assert_uint_eq(bytes[0], 127);                         /* 2^floor(log2(6)) / 4 */
    ck_assert_uint_eq(bytes[1], 127 - 10);                    /* 0.004: 2^-8 / 4 */
    const uint8_t even[5] = { 0x87, 0x22, 0x44, 0x66, 0x08 }; /* ties to even, signs of zeros kept */
    ck_assert_mem_eq(codes, even, 5);
    ck_assert_int_eq(clattn_quantise_row(CLATTN_MXFP8, 36, halves, 1, &by, codes), CLATTN_OK);
    ck_assert_uint_eq(bytes[0], 127 - 6); /* 4 / 2^8 */
    ck_assert_uint_eq(codes[0], 0x7c);    /* 6 * 2^6: 384 */
    by.tensor_scale = 0.5f;
    ck_assert_int_eq(clattn_quantise_row(CLATTN_NVFP4, 36, halves, 1, &by, codes), CLATTN_OK);
    ck_assert_uint_eq(bytes[0], 0x40); /* 6 / 6 / 0.5: 2 */
    ck_assert_mem_eq(codes, even, 5);
    ck_assert_int_eq(clattn_dequantise_row(CLATTN_NVFP4, 36, codes, &by, back), CLATTN_OK);
    ck_assert_float_eq(back[0], 6);
    ck_assert_float_eq(back[3], 1);
}
END_TEST

START_TEST(test_scales_beside_codes_are_checked)
{
    const float values[32] = { 1 };
    float scales[32] = { 1 }, zeros[32] = { 0 };
    uint8_t codes[32];
    const struct {
        clattn_type type;
        int64_t columns;
        int make_scales;
        clattn_row_scales by;
        const char *text;
    } wrong[] = {
        { CLATTN_Q8_0, 32, 0, { scales, NULL, 0, 1 }, "type q8_0: has no scales beside its codes" },
        { CLATTN_INT8, 32, 1, { scales, NULL, 0, 1 }, "make_scales: those of int8 are the caller's" },
        { CLATTN_INT8, 32, 0, { scales, zeros, 0, 1 }, "int8 needs scales, and has no zero points" },
        { CLATTN_U8, 32, 1, { scales, NULL, 0, 1 }, "u8 needs scales, and zero points" },
        { CLATTN_MXFP8, 32, 1, { NULL, NULL, 0, 1 }, "mxfp8 needs scales" },
        { CLATTN_MXFP4, 32, 1, { scales, NULL, 16, 1 }, "scales.columns 16: must be >= 0, and of mxfp4 32" },
        { CLATTN_MXFP8, 32, 1, { scales, NULL, 32, 2 }, "scales.tensor_scale: must be 1; only nvfp4" },
        { CLATTN_U4, 31, 1, { scales, zeros, 0, 1 }, "columns 31: must be a multiple of 2" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        ck_assert_int_ne(clattn_quantise_row(wrong[i].type, wrong[i].columns, values, wrong[i].make_scales,
                                             &wrong[i].by, codes),
                         CLATTN_OK);
        ck_assert_msg(strstr(clattn_last_error(), wrong[i].text) != NULL, "%s", clattn_last_error());
    }
}
END_TEST

START_TEST(test_int4)
{
    const float values[8] = { 1, -1, 1.25f, -1.25f, 1000, -1000, NAN, 0.25f }, scales[2] = { 0.5f, 2 };
    unsigned char row[4] = { 0xff, 0xff, 0xff, 0xff };
    ck_assert_int_eq(clattn_quantise(CLATTN_INT4, 8, values, scales, 4, row), CLATTN_OK);
    const unsigned char expected[4] = { 0x6a, 0x6a, 0x0f,
                                        0x88 }; /* 2, -2, 2.5 -> 2, -2.5 -> -2, 7, -8, 0, 0.125 -> 0 */
    ck_assert_mem_eq(row, expected, sizeof(expected));
    float back[8];
    ck_assert_int_eq(clattn_dequantise(CLATTN_INT4, 8, row, scales, 4, back), CLATTN_OK);
    const float read[8] = { 1, -1, 1, -1, 14, -16, 0, 0 };
    ck_assert_mem_eq(back, read, sizeof(read));
    ck_assert_int_eq(clattn_quantise(CLATTN_INT4, 7, values, scales, 4, row), CLATTN_INVALID_SHAPE);
}
END_TEST

/* A value that is not finite shows in its own block, and in no other. */
START_TEST(test_not_finite)
{
    for (int type = CLATTN_Q8_0; type <= CLATTN_NVFP4_GGML; ++type) {
        const int columns = (int)clattn_type_columns((clattn_type)type), is_e2m1 = type > CLATTN_Q5_1;
        for (int which = 0; which < (is_e2m1 ? 2 : 3); ++which) {
            float values[192], back[192];
            unsigned char row[6 * 34];
            for (int i = 0; i < 192; ++i) {
                values[i] = (float)(i % 7) - 3;
            }
            values[72] = which == 0 ? NAN : which == 1 ? INFINITY : -1e30f;
            /* Finite, but float16 has no such scale: that is said. */
            ck_assert_int_eq(clattn_quantise((clattn_type)type, 192, values, NULL, 0, row),
                             which == 2 ? CLATTN_INVALID_ARGUMENT : CLATTN_OK);
            ck_assert(which != 2 || strstr(clattn_last_error(), "values 64 to 95"));
            ck_assert_int_eq(clattn_dequantise((clattn_type)type, 192, row, NULL, 0, back), CLATTN_OK);
            ck_assert(!isfinite(back[72]));
            for (int i = 0; i < 192; ++i) {
                ck_assert(i / columns == 72 / columns || fabsf(back[i] - values[i]) < 0.5f);
            }
        }
    }
}
END_TEST

START_TEST(test_rounding_mode_of_the_caller)
{
    float values[64];
    unsigned char nearest[2 * 34] = { 0 }, upward[2 * 34] = { 0 };
    for (int i = 0; i < 64; ++i) {
        values[i] = 1.37f * (float)(i % 29 - 11) + 0.001f * (float)i;
    }
    for (int type = CLATTN_FLOAT16; type < STORED_TYPES; ++type) {
        const int64_t columns = type < CLATTN_Q8_0 ? 8 : 64;
        ck_assert_int_eq(clattn_quantise((clattn_type)type, columns, values, NULL, 0, nearest), CLATTN_OK);
        fesetround(FE_UPWARD);
        const clattn_status status = clattn_quantise((clattn_type)type, columns, values, NULL, 0, upward);
        const int mode = fegetround();
        fesetround(FE_TONEAREST);
        ck_assert_int_eq(status, CLATTN_OK);
        ck_assert_int_eq(mode, FE_UPWARD);
        ck_assert_mem_eq(nearest, upward, sizeof(nearest));
    }
}
END_TEST

START_TEST(test_codes_with_scales)
{
    const float values[6] = { 1, 1.25f, -64.25f, 1000, -1000, NAN }, scales[3] = { 0.5f, 2, 4 };
    signed char codes[6];
    ck_assert_int_eq(clattn_quantise(CLATTN_INT8, 6, values, scales, 2, codes), CLATTN_OK);
    const signed char expected[6] = { 2, 2, -32, 127, -128, 0 };
    ck_assert_mem_eq(codes, expected, 6);
    float back[6];
    ck_assert_int_eq(clattn_dequantise(CLATTN_INT8, 6, codes, scales, 2, back), CLATTN_OK);
    ck_assert_float_eq(back[0], 1);
    ck_assert_float_eq(back[2], -64);
    ck_assert_float_eq(back[4], -512);
    ck_assert_int_eq(clattn_quantise(CLATTN_E4M3, 6, values, NULL, 0, codes), CLATTN_OK);
    ck_assert_int_eq(clattn_dequantise(CLATTN_E4M3, 6, codes, NULL, 0, back), CLATTN_OK);
    ck_assert_float_eq(back[1], 1.25f);
    ck_assert_float_eq(back[3], 448);
    ck_assert(isnan(back[5]));
    const float zero = 0;
    ck_assert_int_eq(clattn_quantise(CLATTN_E5M2, 6, values, &zero, 0, codes), CLATTN_OK);
    ck_assert_mem_eq(codes, "\0\0\0\0\0\0", 6);
    ck_assert_float_eq((float)type_scaled(3, (struct code_scale){ 0.1f, 0 }), 3 * 0.1f);
}
END_TEST

START_TEST(test_refusals)
{
    float values[32] = { 0 };
    unsigned char row[34];
    ck_assert_int_eq(clattn_quantise((clattn_type)99, 32, values, NULL, 0, row), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_quantise(CLATTN_Q8_0, 31, values, NULL, 0, row), CLATTN_INVALID_SHAPE);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "columns 31: must be a multiple of 32"));
    ck_assert_int_eq(clattn_quantise(CLATTN_Q8_0, 32, values, values, 0, row), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_dequantise(CLATTN_INT8, 32, row, values, -1, values), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_dequantise(CLATTN_INT8, 32, NULL, NULL, 0, values), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_dequantise(CLATTN_Q8_0, 0, NULL, NULL, 0, NULL), CLATTN_OK);
}
END_TEST

SUITE("stored_types", test_sizes, test_load_and_store_by_type, test_blocks_are_read, test_blocks_are_written,
      test_blocks_of_e2m1_are_read, test_blocks_of_e2m1_are_written, test_int4, test_scales_are_made,
      test_scales_beside_codes_are_checked, test_not_finite, test_rounding_mode_of_the_caller, test_codes_with_scales,
      test_refusals)
