/* The table of storage types, and the public functions that are made of it. */
#include "base/stored_types.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/blocks.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/half.h"
#include "base/nearest.h"

/* ---- elements ----------------------------------------------------------------------------------- */

static double load_float32(const void *data, int64_t index)
{
    return ((const float *)data)[index];
}

static void store_float32(void *data, int64_t index, double value)
{
    ((float *)data)[index] = (float)value;
}

static double load_float64(const void *data, int64_t index)
{
    return ((const double *)data)[index];
}

static void store_float64(void *data, int64_t index, double value)
{
    ((double *)data)[index] = value;
}

static double load_int8(const void *data, int64_t index)
{
    return ((const int8_t *)data)[index];
}

/* Codes are clamped, ties go to the even one; there is none for NaN. */
static void store_int8(void *data, int64_t index, double value)
{
    ((int8_t *)data)[index] = (int8_t)(isnan(value) ? 0 : fmin(fmax(rint(value), -128), 127));
}

/* Two columns a byte. The first has the low four bits, or, of u4, the high ones. */
static int get_nibble(const void *data, int64_t index, int high)
{
    return ((const uint8_t *)data)[index / 2] >> (high ? 4 : 0) & 15;
}

static void put_nibble(void *data, int64_t index, int high, int code)
{
    uint8_t *pair = (uint8_t *)data + index / 2;
    *pair = (uint8_t)(high ? (*pair & 0x0f) | code << 4 : (*pair & 0xf0) | code);
}

static double load_int4(const void *data, int64_t index)
{
    return get_nibble(data, index, index % 2 == 1) - 8;
}

static void store_int4(void *data, int64_t index, double value)
{
    put_nibble(data, index, index % 2 == 1, isnan(value) ? 8 : (int)fmin(fmax(rint(value), -8), 7) + 8);
}

static double load_u8(const void *data, int64_t index)
{
    return ((const uint8_t *)data)[index];
}

static void store_u8(void *data, int64_t index, double value)
{
    ((uint8_t *)data)[index] = (uint8_t)(isnan(value) ? 0 : fmin(fmax(rint(value), 0), 255));
}

static double load_u4(const void *data, int64_t index)
{
    return get_nibble(data, index, index % 2 == 0);
}

static void store_u4(void *data, int64_t index, double value)
{
    put_nibble(data, index, index % 2 == 0, isnan(value) ? 0 : (int)fmin(fmax(rint(value), 0), 15));
}

static double load_e2m1(const void *data, int64_t index)
{
    return e2m1_to_double((uint8_t)get_nibble(data, index, index % 2 == 1));
}

static void store_e2m1(void *data, int64_t index, double value)
{
    put_nibble(data, index, index % 2 == 1, e2m1_from_double(value));
}

#define SMALL_FLOAT(name, bits, widen, narrow)                                                                         \
    static double load_##name(const void *data, int64_t index)                                                         \
    {                                                                                                                  \
        return widen(((const bits *)data)[index]);                                                                     \
    }                                                                                                                  \
    static void store_##name(void *data, int64_t index, double value)                                                  \
    {                                                                                                                  \
        ((bits *)data)[index] = narrow(value);                                                                         \
    }
SMALL_FLOAT(float16, uint16_t, half_to_double, half_from_double)
SMALL_FLOAT(bfloat16, uint16_t, bfloat16_to_double, bfloat16_from_double)
SMALL_FLOAT(e4m3, uint8_t, e4m3_to_double, e4m3_from_double)
SMALL_FLOAT(e5m2, uint8_t, e5m2_to_double, e5m2_from_double)
SMALL_FLOAT(e8m0, uint8_t, e8m0_to_double, e8m0_from_double)

/* ---- the table ---------------------------------------------------------------------------------- */

/* Scales in a tensor of their own. */
struct own_scales {
    clattn_type type; /* what they are stored as; none: there are none */
    int64_t columns;  /* that share one, each row by itself; 0: as the problem says */
    int has_zero_points, has_tensor_scale;
    float most_code; /* the largest code, by which scales are made of values; 0: they are the caller's */
};
static const struct own_scales no_scales = { CLATTN_TYPE_NONE, 0, 0, 0, 0 };
static const struct own_scales given_scales = { CLATTN_FLOAT32, 0, 0, 0, 0 };
static const struct own_scales u8_scales = { CLATTN_FLOAT32, 0, 1, 0, 255 };
static const struct own_scales u4_scales = { CLATTN_FLOAT32, 0, 1, 0, 15 };
static const struct own_scales mxfp8_scales = { CLATTN_E8M0, 32, 0, 0, 448 };
static const struct own_scales mxfp4_scales = { CLATTN_E8M0, 32, 0, 0, 6 };
static const struct own_scales nvfp4_scales = { CLATTN_E4M3, 16, 0, 1, 6 };

static const struct stored_type {
    const char *name;
    size_t bytes;                    /* of an element, or of a block */
    int columns;                     /* of them: codes of four bits share a byte */
    const struct block_type *blocks; /* NULL: elements, one by one */
    int is_float;
    double (*load)(const void *data, int64_t index);
    void (*store)(void *data, int64_t index, double value);
    const struct own_scales *scales;
} types[STORED_TYPES] = {
    [CLATTN_TYPE_NONE] = { "none", 0, 0, NULL, 0, NULL, NULL, &no_scales },
    [CLATTN_FLOAT32] = { "float32", 4, 1, NULL, 1, load_float32, store_float32, &no_scales },
    [CLATTN_FLOAT16] = { "float16", 2, 1, NULL, 1, load_float16, store_float16, &no_scales },
    [CLATTN_BFLOAT16] = { "bfloat16", 2, 1, NULL, 1, load_bfloat16, store_bfloat16, &no_scales },
    [CLATTN_FLOAT64] = { "float64", 8, 1, NULL, 1, load_float64, store_float64, &no_scales },
    [CLATTN_INT8] = { "int8", 1, 1, NULL, 0, load_int8, store_int8, &given_scales },
    [CLATTN_E4M3] = { "e4m3", 1, 1, NULL, 0, load_e4m3, store_e4m3, &given_scales },
    [CLATTN_E5M2] = { "e5m2", 1, 1, NULL, 0, load_e5m2, store_e5m2, &given_scales },
    [CLATTN_Q8_0] = { "q8_0", 34, 32, &q8_0_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_Q4_0] = { "q4_0", 18, 32, &q4_0_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_Q4_1] = { "q4_1", 20, 32, &q4_1_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_Q5_0] = { "q5_0", 22, 32, &q5_0_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_Q5_1] = { "q5_1", 24, 32, &q5_1_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_MXFP4_GGML] = { "mxfp4_ggml", 17, 32, &mxfp4_ggml_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_NVFP4_GGML] = { "nvfp4_ggml", 36, 64, &nvfp4_ggml_blocks, 0, NULL, NULL, &no_scales },
    [CLATTN_INT4] = { "int4", 1, 2, NULL, 0, load_int4, store_int4, &given_scales },
    [CLATTN_U8] = { "u8", 1, 1, NULL, 0, load_u8, store_u8, &u8_scales },
    [CLATTN_U4] = { "u4", 1, 2, NULL, 0, load_u4, store_u4, &u4_scales },
    [CLATTN_MXFP8] = { "mxfp8", 1, 1, NULL, 0, load_e4m3, store_e4m3, &mxfp8_scales },
    [CLATTN_MXFP4] = { "mxfp4", 1, 2, NULL, 0, load_e2m1, store_e2m1, &mxfp4_scales },
    [CLATTN_NVFP4] = { "nvfp4", 1, 2, NULL, 0, load_e2m1, store_e2m1, &nvfp4_scales },
    [CLATTN_E8M0] = { "e8m0", 1, 1, NULL, 0, load_e8m0, store_e8m0, &no_scales },
};

static const struct stored_type *row_of(clattn_type type)
{
    return &types[(unsigned)type < STORED_TYPES ? type : CLATTN_TYPE_NONE];
}

int type_is_float(clattn_type type)
{
    return row_of(type)->is_float;
}

int type_takes_scales(clattn_type type)
{
    return type_of_scales(type) != CLATTN_TYPE_NONE;
}

clattn_type type_of_scales(clattn_type type)
{
    return row_of(type)->scales->type;
}

int64_t type_scale_columns(clattn_type type)
{
    return row_of(type)->scales->columns;
}

int type_has_zero_points(clattn_type type)
{
    return row_of(type)->scales->has_zero_points;
}

int type_has_tensor_scale(clattn_type type)
{
    return row_of(type)->scales->has_tensor_scale;
}

float type_most_code(clattn_type type)
{
    return row_of(type)->scales->most_code;
}

int type_is_blocks(clattn_type type)
{
    return row_of(type)->blocks != NULL;
}

size_t type_element(clattn_type type, int64_t *columns)
{
    const struct stored_type *row = row_of(type);
    *columns = row->columns > 1 ? row->columns : 1;
    return row->bytes;
}

double type_load(clattn_type type, const void *data, int64_t index)
{
    const struct stored_type *row = row_of(type);
    if (row->blocks) {
        const uint8_t *block = (const uint8_t *)data + index / row->columns * (int64_t)row->bytes;
        return row->blocks->load(block, (int)(index % row->columns));
    }
    return row->load ? row->load(data, index) : 0;
}

void type_store(clattn_type type, void *data, int64_t index, double value)
{
    const struct stored_type *row = row_of(type);
    if (row->store) {
        row->store(data, index, value);
    }
}

/* ---- public --------------------------------------------------------------------------------------- */

size_t clattn_type_size(clattn_type type)
{
    return row_of(type)->bytes;
}

int64_t clattn_type_columns(clattn_type type)
{
    return row_of(type)->columns;
}

size_t clattn_row_bytes(clattn_type type, int64_t columns)
{
    const int64_t block = clattn_type_columns(type);
    int64_t bytes;
    if (block == 0 || columns < 0 || columns % block != 0 ||
        !checked_multiply(columns / block, (int64_t)row_of(type)->bytes, &bytes)) {
        return 0;
    }
    return (size_t)bytes;
}

const char *clattn_type_name(clattn_type type)
{
    return (unsigned)type < STORED_TYPES ? types[type].name : "unknown type";
}

/* `type` has such rows, and scales where it can have some. */
static clattn_status check_row(clattn_type type, int64_t columns, const float *scales, int64_t scale_columns,
                               const void *row, const void *values)
{
    const int64_t block = clattn_type_columns(type);
    if (block == 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "type %d: is not a clattn_type", (int)type);
    }
    if (columns < 0 || columns % block != 0) {
        return error_set(CLATTN_INVALID_SHAPE, "columns %" PRId64 ": must be a multiple of %" PRId64 ", a block of %s",
                         columns, block, clattn_type_name(type));
    }
    if (columns > 0 && (!row || !values)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "row, values: must not be NULL");
    }
    if (scales && !type_takes_scales(type)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scales: %s has none; leave them NULL", clattn_type_name(type));
    }
    if (scale_columns < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scale_columns %" PRId64 ": must be >= 0", scale_columns);
    }
    return CLATTN_OK;
}

int64_t type_store_blocks(clattn_type type, int64_t columns, const float *values, void *row)
{
    const struct stored_type *stored = row_of(type);
    int64_t not_held = -1;
    uint8_t *block = row;
    for (int64_t c = 0; c < columns; c += stored->columns, block += stored->bytes) {
        const int is_held = stored->blocks->store(values + c, block);
        not_held = not_held < 0 && !is_held ? c : not_held;
    }
    return not_held;
}

static clattn_status quantise_blocks(clattn_type type, int64_t columns, const float *values, void *row)
{
    const int64_t column = type_store_blocks(type, columns, values, row);
    return column < 0 ? CLATTN_OK
                      : error_set(CLATTN_INVALID_ARGUMENT,
                                  "values %" PRId64 " to %" PRId64
                                  ": %s has its scale and minimum in float16, up to 65504, and these need larger ones; "
                                  "scale the values down, or take e4m3, e5m2 or int8 with scales",
                                  column, column + row_of(type)->columns - 1, clattn_type_name(type));
}

static struct code_scale scale_of(const float *scales, int64_t scale_columns, int64_t column)
{
    return (struct code_scale){ scales ? scales[scale_columns > 0 ? column / scale_columns : 0] : 1.0f, 0.0f };
}

clattn_status clattn_quantise(clattn_type type, int64_t columns, const float *values, const float *scales,
                              int64_t scale_columns, void *row)
{
    ROUNDED_TO_NEAREST;
    const struct stored_type *stored = row_of(type);
    clattn_status status = check_row(type, columns, scales, scale_columns, row, values);
    if (status == CLATTN_OK && stored->blocks) {
        status = quantise_blocks(type, columns, values, row);
    }
    for (int64_t c = 0; c < columns && status == CLATTN_OK && !stored->blocks; ++c) {
        const double value = type_takes_scales(type) ? type_code(type, values[c], scale_of(scales, scale_columns, c))
                                                     : values[c];
        stored->store(row, c, value);
    }
    return status;
}

clattn_status clattn_dequantise(clattn_type type, int64_t columns, const void *row, const float *scales,
                                int64_t scale_columns, float *values)
{
    ROUNDED_TO_NEAREST;
    const clattn_status status = check_row(type, columns, scales, scale_columns, row, values);
    for (int64_t c = 0; c < columns && status == CLATTN_OK; ++c) {
        values[c] = (float)type_scaled(type_load(type, row, c), scale_of(scales, scale_columns, c));
    }
    return status;
}
