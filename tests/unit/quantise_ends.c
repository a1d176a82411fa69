/* Rows of finite values at the ends of float32 and of a type's own range, by every type and rounding mode: they are
 * finite when they are read, or refused; and the same bytes whatever the mode is. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/stored_types.h"

#include "suite.h"

#define COLUMNS 64
#define BYTES_MOST 256

struct stored_row {
    unsigned char codes[BYTES_MOST], scales[BYTES_MOST];
    float zero_points[COLUMNS];
    clattn_status status;
};

static clattn_row_scales beside(clattn_type type, struct stored_row *row)
{
    const int has_zeros = type_has_zero_points(type);
    return (clattn_row_scales){ row->scales, has_zeros ? row->zero_points : NULL, has_zeros ? 32 : 0, 1 };
}

static void store(clattn_type type, const float *values, int mode, struct stored_row *row)
{
    memset(row, 0, sizeof(*row));
    const clattn_row_scales by = beside(type, row);
    fesetround(mode);
    row->status = type_makes_scales(type) ? clattn_quantise_row(type, COLUMNS, values, 1, &by, row->codes)
                                          : clattn_quantise(type, COLUMNS, values, NULL, 0, row->codes);
    fesetround(FE_TONEAREST);
}

static int reads_finite(clattn_type type, struct stored_row *row)
{
    const clattn_row_scales by = beside(type, row);
    float values[COLUMNS];
    int finite = 1;
    ck_assert_int_eq(type_makes_scales(type) ? clattn_dequantise_row(type, COLUMNS, row->codes, &by, values)
                                             : clattn_dequantise(type, COLUMNS, row->codes, NULL, 0, values),
                     CLATTN_OK);
    for (int c = 0; c < COLUMNS; ++c) {
        finite &= isfinite(values[c]) != 0;
    }
    return finite;
}

START_TEST(test_ends_of_every_type)
{
    static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    static const float pairs[][2] = {
        { FLT_MAX, -FLT_MAX }, { FLT_MAX, 1 },          { FLT_MAX, FLT_MAX }, { -FLT_MAX, 0.4f * -FLT_MAX },
        { 2e38f, -2e38f },     { 1e38f, -1e38f },       { 1e6f, -3 },         { 65504 * 127.0f, 1 },
        { 65520 * 127.0f, 1 }, { 65504 * 8.0f, 1 },     { 65504, -65504 },    { 1e-45f, -1e-45f },
        { FLT_MIN, 0 },        { 2e-45f, FLT_MIN / 2 },
    };
    for (int type = CLATTN_INT8; type < CLATTN_E8M0; ++type) {
        int refused = 0;
        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
            float values[COLUMNS];
            struct stored_row rows[2];
            for (int c = 0; c < COLUMNS; ++c) {
                values[c] = pairs[i][c % 2] * (c > 8 && c < 40 ? 0.37f : 1.0f);
            }
            for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); ++m) {
                store((clattn_type)type, values, modes[m], &rows[m > 0]);
                ck_assert_mem_eq(&rows[0], &rows[m > 0], sizeof(rows[0]));
            }
            ck_assert_msg(reads_finite((clattn_type)type, &rows[0]) == (rows[0].status == CLATTN_OK),
                          "%s, values %g and %g: status %d", clattn_type_name((clattn_type)type), (double)pairs[i][0],
                          (double)pairs[i][1], (int)rows[0].status);
            refused += rows[0].status != CLATTN_OK;
        }
        const int has_ends = (type >= CLATTN_Q8_0 && type <= CLATTN_Q5_1) || type_has_zero_points((clattn_type)type);
        ck_assert_msg((refused > 0) == has_ends, "%s refused %d", clattn_type_name((clattn_type)type), refused);
    }
}
END_TEST

/* A value that is not finite makes NaN of its scale, and nothing of the row is refused for it. */
START_TEST(test_values_that_are_not_finite)
{
    for (int type = CLATTN_U8; type < CLATTN_E8M0; ++type) {
        float values[COLUMNS] = { 1, INFINITY, -3 };
        struct stored_row row;
        store((clattn_type)type, values, FE_TONEAREST, &row);
        ck_assert_int_eq(row.status, CLATTN_OK);
        ck_assert(!reads_finite((clattn_type)type, &row));
    }
}
END_TEST

SUITE("quantise_ends", test_ends_of_every_type, test_values_that_are_not_finite)
