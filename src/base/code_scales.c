/* Scales and zero points that lie beside codes: how they make values of codes and codes of values, and how quantising
 * makes them of values. The device's twins are cl/forward/kv_rows.clh and cl/cache/made_scales.clh. All steps are
 * float32's, each rounded. */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/stored_types.h"

#define NO_RANGE_SCALE 0.0001f /* of u8 and u4, where all values are one */

float type_scale(clattn_type type, const void *scales, int64_t index, float tensor_scale)
{
    return (float)type_load(type_of_scales(type), scales, index) * tensor_scale;
}

double type_scaled(double code, struct code_scale by)
{
    const volatile float difference = (float)(code - by.zero_point);
    return difference * by.scale;
}

double type_code(clattn_type type, float value, struct code_scale by)
{
    if (type == CLATTN_INT8 || type == CLATTN_INT4) {
        const float inverse = by.scale != 0.0f ? 1.0f / by.scale : 0.0f;
        return value * inverse;
    }
    const volatile float units = by.scale != 0.0f ? value / by.scale : 0.0f;
    return type_has_zero_points(type) ? roundf(units + by.zero_point) : units;
}

/* ---- scales that are made ----------------------------------------------------------------------- */

struct range {
    float least, most, largest; /* largest: in magnitude */
};

/* A value that is not finite makes NaN of all. */
static struct range range_of(const float *values, int64_t count)
{
    struct range range = { INFINITY, -INFINITY, 0 };
    for (int64_t i = 0; i < count; ++i) {
        if (!isfinite(values[i])) {
            return (struct range){ NAN, NAN, NAN };
        }
        range.least = fminf(range.least, values[i]);
        range.most = fmaxf(range.most, values[i]);
        range.largest = fmaxf(range.largest, fabsf(values[i]));
    }
    return range;
}

static struct code_scale scale_of_range(struct range range, float most_code)
{
    const volatile float spread = range.most - range.least;
    const volatile float even = spread / most_code;
    const float scale = even == 0.0f ? NO_RANGE_SCALE : even;
    return (struct code_scale){ scale, 0.0f - range.least / scale }; /* no zero has a sign */
}

/* By which the largest magnitude has the exponent of the largest code. */
static float power_of_two(float largest, int exponent_of_code)
{
    int exponent;
    (void)frexpf(largest, &exponent);
    return isnan(largest) || largest == 0.0f ? largest : ldexpf(1, exponent - 1 - exponent_of_code);
}

int type_makes_scales(clattn_type type)
{
    return type_most_code(type) > 0;
}

struct code_scale type_make_scale(clattn_type type, const float *values, int64_t count, float tensor_scale,
                                  void *scales, int64_t index)
{
    const struct range range = range_of(values, count);
    const float most_code = type_most_code(type);
    struct code_scale made = { 0, 0 };
    if (type_has_zero_points(type)) {
        made = scale_of_range(range, most_code);
    } else if (type_has_tensor_scale(type)) {
        const volatile float share = range.largest / most_code;
        made.scale = tensor_scale != 0.0f ? share / tensor_scale : 0.0f;
    } else {
        made.scale = power_of_two(range.largest, ilogbf(most_code));
    }
    type_store(type_of_scales(type), scales, index, made.scale);
    made.scale = type_scale(type, scales, index, tensor_scale);
    return made;
}

/* ---- public ------------------------------------------------------------------------------------- */

/* What beside the codes of a row a type has. */
static clattn_status check_row(clattn_type type, int64_t columns, const clattn_row_scales *by)
{
    const int64_t of_type = type_scale_columns(type);
    if (!type_takes_scales(type)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "type %s: has no scales beside its codes; use clattn_quantise, "
                         "clattn_dequantise",
                         clattn_type_name(type));
    }
    if (!by || !by->scales || (type_has_zero_points(type) != (by->zero_points != NULL))) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scales, zero_points: %s needs scales, and %s",
                         clattn_type_name(type),
                         type_has_zero_points(type) ? "zero points" : "has no zero points; leave them NULL");
    }
    if (by->columns < 0 || (of_type > 0 && by->columns != 0 && by->columns != of_type)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scales.columns %" PRId64 ": must be >= 0, and of %s %" PRId64,
                         by->columns, clattn_type_name(type), of_type);
    }
    if (!type_has_tensor_scale(type) && !(by->tensor_scale >= 1 && by->tensor_scale <= 1)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scales.tensor_scale: must be 1; only nvfp4 has one");
    }
    if (columns < 0 || columns % clattn_type_columns(type) != 0) {
        return error_set(CLATTN_INVALID_SHAPE, "columns %" PRId64 ": must be a multiple of %" PRId64 " of %s", columns,
                         clattn_type_columns(type), clattn_type_name(type));
    }
    return CLATTN_OK;
}

static int64_t shared_columns(clattn_type type, int64_t columns, const clattn_row_scales *by)
{
    const int64_t share = type_scale_columns(type) > 0 ? type_scale_columns(type) : by->columns;
    return share > 0 && share < columns ? share : columns;
}

static struct code_scale given_scale(clattn_type type, const clattn_row_scales *by, int64_t group)
{
    return (struct code_scale){ type_scale(type, by->scales, group, (float)by->tensor_scale),
                                by->zero_points ? by->zero_points[group] : 0.0f };
}

/* Whether finite values are not finite when they are read, as those further apart than float32 reaches. */
static int loses_values(clattn_type type, const void *row, const float *values, int64_t from, int64_t end,
                        struct code_scale by)
{
    int all_finite = 1, all_kept = 1;
    for (int64_t i = from; i < end; ++i) {
        all_finite &= isfinite(values[i]) != 0;
        all_kept &= isfinite(type_scaled(type_load(type, row, i), by)) != 0;
    }
    return all_finite && !all_kept;
}

clattn_status clattn_quantise_row(clattn_type type, int64_t columns, const float *values, int make_scales,
                                  const clattn_row_scales *scales, void *row)
{
    ROUNDED_TO_NEAREST;
    clattn_status status = check_row(type, columns, scales);
    int64_t lost = -1;
    if (status == CLATTN_OK && make_scales && !type_makes_scales(type)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "make_scales: those of %s are the caller's; set it to 0",
                         clattn_type_name(type));
    }
    for (int64_t c = 0, share = shared_columns(type, columns, scales); c < columns && status == CLATTN_OK; c += share) {
        const int64_t count = columns - c < share ? columns - c : share, group = c / share;
        struct code_scale by = { 0, 0 };
        if (make_scales) {
            by = type_make_scale(type, values + c, count, (float)scales->tensor_scale, scales->scales, group);
            if (scales->zero_points) {
                scales->zero_points[group] = by.zero_point;
            }
        } else {
            by = given_scale(type, scales, group);
        }
        for (int64_t i = c; i < c + count; ++i) {
            type_store(type, row, i, type_code(type, values[i], by));
        }
        lost = lost < 0 && make_scales && loses_values(type, row, values, c, c + count, by) ? c : lost;
    }
    return lost < 0
               ? status
               : error_set(CLATTN_INVALID_ARGUMENT,
                           "values[%" PRId64 "] and those after it: are so far apart that float32 has no %s scale, "
                           "or no sum, for them; divide them by 4 and multiply what comes of it",
                           lost, clattn_type_name(type));
}

clattn_status clattn_dequantise_row(clattn_type type, int64_t columns, const void *row, const clattn_row_scales *scales,
                                    float *values)
{
    ROUNDED_TO_NEAREST;
    const clattn_status status = check_row(type, columns, scales);
    for (int64_t c = 0; c < columns && status == CLATTN_OK; ++c) {
        values[c] = (float)type_scaled(type_load(type, row, c),
                                       given_scale(type, scales, c / shared_columns(type, columns, scales)));
    }
    return status;
}
