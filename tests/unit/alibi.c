/* The standard ALiBi slopes, against numbers of the paper. */
#include "clattn.h"

#include "suite.h"

START_TEST(test_power_of_two)
{
    float slopes[8];
    ck_assert_int_eq(clattn_alibi_slopes(8, slopes), CLATTN_OK);
    for (int i = 0; i < 8; ++i) {
        ck_assert_float_eq(slopes[i], 1.0f / (float)(2 << i)); /* 1/2, 1/4, ... 1/256 */
    }
}
END_TEST

START_TEST(test_sixteen_heads)
{
    float slopes[16];
    ck_assert_int_eq(clattn_alibi_slopes(16, slopes), CLATTN_OK);
    ck_assert_float_eq_tol(slopes[0], 0.70710678f, 1e-7f);
    ck_assert_float_eq(slopes[1], 0.5f);
    ck_assert_float_eq(slopes[15], 0.00390625f);
}
END_TEST

/* Twelve: the eight of eight, then every other one of sixteen. */
START_TEST(test_other_counts)
{
    float eight[8], twelve[12], sixteen[16], one[1], three[3];
    clattn_alibi_slopes(8, eight);
    clattn_alibi_slopes(16, sixteen);
    ck_assert_int_eq(clattn_alibi_slopes(12, twelve), CLATTN_OK);
    for (int i = 0; i < 8; ++i) {
        ck_assert_float_eq(twelve[i], eight[i]);
    }
    for (int i = 0; i < 4; ++i) {
        ck_assert_float_eq(twelve[8 + i], sixteen[2 * i]);
    }
    clattn_alibi_slopes(1, one);
    ck_assert_float_eq(one[0], 0.00390625f);
    clattn_alibi_slopes(3, three);
    ck_assert_float_eq(three[0], 0.0625f);
    ck_assert_float_eq(three[1], 0.00390625f);
    ck_assert_float_eq(three[2], 0.25f);
}
END_TEST

START_TEST(test_bad_arguments)
{
    float slope;
    ck_assert_int_eq(clattn_alibi_slopes(-1, &slope), CLATTN_INVALID_SHAPE);
    ck_assert_int_eq(clattn_alibi_slopes(1, NULL), CLATTN_INVALID_ARGUMENT);
}
END_TEST

SUITE("alibi", test_power_of_two, test_sixteen_heads, test_other_counts, test_bad_arguments)
