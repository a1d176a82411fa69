/* The table of storage types, and the public functions that are made of it. */
#include "base/stored_types.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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

/* ---- blocks ------------------------------------------------------------------------------------- */

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
static double load_block(const struct block_format *format, const void *data, int64_t index)
{
    const uint8_t *block = (const uint8_t *)data + index / BLOCK_COLUMNS * format->bytes;
    const double value = half_to_double(get_ushort(block)) * get_code(format, block, (int)(index % BLOCK_COLUMNS));
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
    for (int i = 0; i < BLOCK_COLUMNS; ++i) {
        if (isnan(values[i])) {
            return (struct range){ values[i], values[i], values[i] };
        }
        range.least = values[i] < range.least ? values[i] : range.least;
        range.most = values[i] > range.most ? values[i] : range.most;
        range.largest = fabsf(values[i]) > fabsf(range.largest) ? values[i] : range.largest;
    }
    return range;
}

/* Codes are made with the scale before it is rounded to float16. All steps are float32's, each rounded: compilers may
 * not join them. A block with a value that is not finite, or one that float16 has no scale for, has NaN or infinities
 * where it is read. */
static void store_block(const struct block_format *format, const float *values, uint8_t *block)
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
    for (int i = 0; i < BLOCK_COLUMNS; ++i) {
        const float difference = values[i] - least;
        const volatile float units = difference * inverse;
        const float shifted = units + ((float)format->zero + 0.5f);
        const float code = format->bits == 8 ? roundf(units) : truncf(shifted);
        put_code(format, block, i, isfinite(code) ? (int)fminf(code, (float)most) : 0);
    }
}

#define BLOCK_TYPE(name)                                                                                               \
    static double load_##name(const void *data, int64_t index)                                                         \
    {                                                                                                                  \
        return load_block(&name##_format, data, index);                                                                \
    }
BLOCK_TYPE(q8_0)
BLOCK_TYPE(q4_0)
BLOCK_TYPE(q4_1)
BLOCK_TYPE(q5_0)
BLOCK_TYPE(q5_1)

/* ---- the table ---------------------------------------------------------------------------------- */

static const struct stored_type {
    const char *name;
    size_t bytes;                      /* of an element, or of a block */
    const struct block_format *blocks; /* NULL: elements, one by one */
    int is_float, takes_scales;
    double (*load)(const void *data, int64_t index);
    void (*store)(void *data, int64_t index, double value); /* NULL: of blocks */
} types[STORED_TYPES] = {
    [CLATTN_TYPE_NONE] = { "none", 0, NULL, 0, 0, NULL, NULL },
    [CLATTN_FLOAT32] = { "float32", 4, NULL, 1, 0, load_float32, store_float32 },
    [CLATTN_FLOAT16] = { "float16", 2, NULL, 1, 0, load_float16, store_float16 },
    [CLATTN_BFLOAT16] = { "bfloat16", 2, NULL, 1, 0, load_bfloat16, store_bfloat16 },
    [CLATTN_FLOAT64] = { "float64", 8, NULL, 1, 0, load_float64, store_float64 },
    [CLATTN_INT8] = { "int8", 1, NULL, 0, 1, load_int8, store_int8 },
    [CLATTN_E4M3] = { "e4m3", 1, NULL, 0, 1, load_e4m3, store_e4m3 },
    [CLATTN_E5M2] = { "e5m2", 1, NULL, 0, 1, load_e5m2, store_e5m2 },
    [CLATTN_Q8_0] = { "q8_0", 34, &q8_0_format, 0, 0, load_q8_0, NULL },
    [CLATTN_Q4_0] = { "q4_0", 18, &q4_0_format, 0, 0, load_q4_0, NULL },
    [CLATTN_Q4_1] = { "q4_1", 20, &q4_1_format, 0, 0, load_q4_1, NULL },
    [CLATTN_Q5_0] = { "q5_0", 22, &q5_0_format, 0, 0, load_q5_0, NULL },
    [CLATTN_Q5_1] = { "q5_1", 24, &q5_1_format, 0, 0, load_q5_1, NULL },
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
    return row_of(type)->takes_scales;
}

int type_is_blocks(clattn_type type)
{
    return row_of(type)->blocks != NULL;
}

size_t type_element(clattn_type type, int64_t *columns)
{
    const struct stored_type *row = row_of(type);
    *columns = row->blocks ? BLOCK_COLUMNS : 1;
    return row->bytes;
}

double type_load(clattn_type type, const void *data, int64_t index)
{
    const struct stored_type *row = row_of(type);
    return row->load ? row->load(data, index) : 0;
}

void type_store(clattn_type type, void *data, int64_t index, double value)
{
    const struct stored_type *row = row_of(type);
    if (row->store) {
        row->store(data, index, value);
    }
}

double type_scaled(double code, float scale)
{
    return (float)(code * scale);
}

double type_code(clattn_type type, float value, float scale)
{
    if (type == CLATTN_INT8) {
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        return value * inverse;
    }
    return scale != 0.0f ? value / scale : 0.0f;
}

/* ---- public --------------------------------------------------------------------------------------- */

size_t clattn_type_size(clattn_type type)
{
    return row_of(type)->bytes;
}

int64_t clattn_type_columns(clattn_type type)
{
    const struct stored_type *row = row_of(type);
    return row->blocks ? BLOCK_COLUMNS : row->bytes > 0;
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
    if (scales && !row_of(type)->takes_scales) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scales: %s has none; leave them NULL", clattn_type_name(type));
    }
    if (scale_columns < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scale_columns %" PRId64 ": must be >= 0", scale_columns);
    }
    return CLATTN_OK;
}

/* Whether finite values are read back as finite ones: not where float16 has no scale, or no minimum, so large. */
static int block_is_held(const struct block_format *format, const float *values, const uint8_t *block)
{
    int all_finite = 1;
    for (int i = 0; i < BLOCK_COLUMNS; ++i) {
        all_finite &= isfinite(values[i]) != 0;
    }
    return !all_finite || (isfinite(half_to_double(get_ushort(block))) &&
                           (!format->has_min || isfinite(half_to_double(get_ushort(block + 2)))));
}

int64_t type_store_blocks(clattn_type type, int64_t columns, const float *values, void *row)
{
    const struct block_format *format = row_of(type)->blocks;
    int64_t not_held = -1;
    uint8_t *block = row;
    for (int64_t c = 0; c < columns; c += BLOCK_COLUMNS, block += format->bytes) {
        store_block(format, values + c, block);
        not_held = not_held < 0 && !block_is_held(format, values + c, block) ? c : not_held;
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
                                  column, column + BLOCK_COLUMNS - 1, clattn_type_name(type));
}

static float scale_of(const float *scales, int64_t scale_columns, int64_t column)
{
    return scales ? scales[scale_columns > 0 ? column / scale_columns : 0] : 1.0f;
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
        const double value = stored->takes_scales ? type_code(type, values[c], scale_of(scales, scale_columns, c))
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
