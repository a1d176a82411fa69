/* What append means, once more: each row by its definition, in float64. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "append_memory.h"
#include "base/half.h"
#include "base/stored_types.h"

#define COLUMNS_MOST 128

static int has(const struct append_call_test *test, uint32_t feature)
{
    return (test->problem.features & feature) != 0;
}

/* ---- where a row goes ------------------------------------------------------------------------- */

struct place {
    int is_there;
    int64_t pack, row;
};

static int64_t in_ring(const clattn_append_problem *p, int64_t key)
{
    return p->ring == 0 || key < p->pinned ? key : p->pinned + (key - p->pinned) % (p->ring - p->pinned);
}

static struct place place_of(const struct append_call_test *test, int64_t b, int64_t i)
{
    const clattn_append_problem *p = &test->problem;
    const struct append_memory *a = test->array;
    const struct append_rows rows = append_rows_of(test, b);
    const struct place nowhere = { 0, 0, 0 };
    if (has(test, CLATTN_WITH_SLOTS)) {
        const int64_t slot = append_memory_int(&a[ARRAY_SLOTS], rows.pack, rows.first + i, 0);
        const int64_t size = p->page_size > 0 ? p->page_size : p->capacity;
        const struct place place = { slot >= 0 && slot<(p->page_size > 0 ? p->pages * size : size), p->page_size> 0
                                         ? slot / size
                                         : b,
                                     slot % size };
        return place;
    }
    const int64_t key = (int64_t)append_memory_int(&a[ARRAY_STARTS], 0, 0, b) + i;
    for (int64_t later = i + 1; p->ring > 0 && key >= 0 && later < rows.count; ++later) {
        if (in_ring(p, key + later - i) == in_ring(p, key)) {
            return nowhere;
        }
    }
    const int64_t row = key < 0 ? -1 : in_ring(p, key);
    if (row < 0 || row >= p->capacity) {
        return nowhere;
    }
    const struct place dense = { 1, b, row };
    if (p->page_size == 0) {
        return dense;
    }
    const int64_t n = row / p->page_size;
    if (has(test, CLATTN_WITH_PAGE_STARTS) && n >= append_memory_int(&a[ARRAY_PAGE_STARTS], 0, 0, b + 1) -
                                                       append_memory_int(&a[ARRAY_PAGE_STARTS], 0, 0, b)) {
        return nowhere;
    }
    const int64_t page =
        has(test, CLATTN_WITH_PAGE_STARTS)
            ? append_memory_int(&a[ARRAY_PAGE_TABLE], 0, 0, append_memory_int(&a[ARRAY_PAGE_STARTS], 0, 0, b) + n)
            : append_memory_int(&a[ARRAY_PAGE_TABLE], b, 0, n);
    const struct place paged = { page >= 0 && page < p->pages, page, row % p->page_size };
    return paged;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static void read_row(const struct append_memory *from, int64_t b, int64_t h, int64_t i, double *row)
{
    for (int64_t c = 0; c < from->shape[3]; ++c) {
        row[c] = type_load(from->type, from->data, append_memory_at(from, b, h, i, c));
    }
}

static void norm(const struct append_call_test *test, uint32_t feature, enum append_array weights, int64_t columns,
                 double *row)
{
    const struct append_memory *weight = &test->array[weights];
    long double squares = 0;
    for (int64_t c = 0; c < columns; ++c) {
        squares += (long double)row[c] * row[c];
    }
    const long double root = sqrtl(squares / (long double)columns + (long double)test->problem.norm_epsilon);
    for (int64_t c = 0; c < columns && has(test, feature); ++c) {
        const int is_weighted = weight->data && feature != CLATTN_WITH_VALUE_NORM;
        row[c] = (double)(row[c] / root) *
                 (is_weighted ? type_load(CLATTN_FLOAT32, weight->data, append_memory_at(weight, 0, 0, 0, c)) : 1);
    }
}

static void turn(const struct append_call_test *test, int64_t b, int64_t i, double *row)
{
    const clattn_append_problem *p = &test->problem;
    const struct append_memory *a = test->array;
    const struct append_rows rows = append_rows_of(test, b);
    const int by_token = has(test, CLATTN_WITH_TOKEN_TABLES);
    if (!has(test, CLATTN_WITH_ROTARY)) {
        return;
    }
    const int64_t at = by_token ? rows.first + i
                       : has(test, CLATTN_WITH_POSITIONS)
                           ? append_memory_int(&a[ARRAY_POSITIONS], rows.pack, rows.first + i, 0)
                           : (int64_t)append_memory_int(&a[ARRAY_STARTS], 0, 0, b) + i;
    const int64_t pairs = a[ARRAY_COSINE].shape[3], pack = by_token ? rows.pack : 0;
    for (int64_t n = 0; n < pairs; ++n) {
        const int outside = at < 0 || at >= a[ARRAY_COSINE].shape[2];
        const int64_t place = outside ? 0 : append_memory_at(&a[ARRAY_COSINE], pack, 0, at, n);
        const int64_t sine_place = outside ? 0 : append_memory_at(&a[ARRAY_SINE], pack, 0, at, n);
        const double c = outside ? (double)NAN : type_load(CLATTN_FLOAT32, a[ARRAY_COSINE].data, place);
        const double s = (outside ? (double)NAN : type_load(CLATTN_FLOAT32, a[ARRAY_SINE].data, sine_place)) *
                         (p->inverse ? -1 : 1);
        double *x = &row[p->first_column + (p->pairs == CLATTN_PAIRS_HALVES ? n : 2 * n)];
        double *y = &row[p->first_column + (p->pairs == CLATTN_PAIRS_HALVES ? n + pairs : 2 * n + 1)];
        const double x_before = *x;
        *x = x_before * c - *y * s;
        *y = x_before * s + *y * c;
    }
}

static void write_row(struct append_memory *to, const struct append_memory *scales, int64_t scale_rows,
                      int64_t scale_columns, const struct place *place, int64_t h, const double *row)
{
    const int64_t of_element = clattn_type_columns(to->type);
    float values[COLUMNS_MOST], factors[COLUMNS_MOST];
    for (int64_t c = 0; c < to->shape[3]; ++c) {
        values[c] = (float)row[c];
        factors[c] = 1;
        if (scales->data) {
            factors[c] =
                (float)type_load(CLATTN_FLOAT32, scales->data,
                                 append_memory_at(scales, place->pack, h, scale_rows ? place->row / scale_rows : 0,
                                                  scale_columns ? c / scale_columns : 0));
        }
    }
    for (int64_t c = 0; c < to->shape[3]; c += of_element) {
        const int64_t at = append_memory_at(to, place->pack, h, place->row, c);
        if (type_is_float(to->type)) {
            type_store(to->type, to->data, at, row[c]);
        } else {
            clattn_quantise(to->type, of_element, &values[c], type_takes_scales(to->type) ? &factors[c] : NULL, 1,
                            to->data + at / of_element * (int64_t)clattn_type_size(to->type));
        }
    }
}

/* Arrays of the scales that are made of a row, and of its zero points. */
struct made {
    struct append_memory *scales, *zeros;
    const struct append_memory *whole; /* the scale of the tensor */
    int64_t columns;                   /* that share one; 0: all */
};

static void write_made_row(struct append_memory *to, const struct made *made, const struct place *place, int64_t h,
                           const double *row)
{
    float values[COLUMNS_MOST], zeros[COLUMNS_MOST], scales[COLUMNS_MOST];
    unsigned char codes[COLUMNS_MOST];
    const int64_t columns = to->shape[3], of_element = clattn_type_columns(to->type);
    const clattn_row_scales by = { scales, made->zeros->data ? zeros : NULL, made->columns,
                                   made->whole->data ? (float)type_load(CLATTN_FLOAT32, made->whole->data,
                                                                        append_memory_at(made->whole, 0, 0, 0, 0))
                                                     : 1 };
    for (int64_t c = 0; c < columns; ++c) {
        values[c] = (float)row[c];
    }
    if (clattn_quantise_row(to->type, columns, values, 1, &by, codes) != CLATTN_OK) {
        fprintf(stderr, "tests: %s\n", clattn_last_error());
        exit(1);
    }
    for (int64_t c = 0; c < columns; c += of_element) {
        to->data[append_memory_at(to, place->pack, h, place->row, c) / of_element] = codes[c / of_element];
    }
    for (int64_t n = 0; n < made->scales->shape[3]; ++n) {
        const size_t bytes = clattn_type_size(made->scales->type);
        memcpy(made->scales->data + (size_t)append_memory_at(made->scales, place->pack, h, place->row, n) * bytes,
               (char *)scales + (size_t)n * bytes, bytes);
        if (made->zeros->data) {
            type_store(CLATTN_FLOAT32, made->zeros->data, append_memory_at(made->zeros, place->pack, h, place->row, n),
                       zeros[n]);
        }
    }
}

static void expect_row(const struct append_call_test *before, struct append_call_test *after, int64_t b, int64_t i)
{
    const clattn_append_problem *p = &before->problem;
    const struct append_rows rows = append_rows_of(before, b);
    const struct place place = place_of(before, b, i);
    double row[COLUMNS_MOST];
    for (int64_t h = 0; h < p->query_heads; ++h) {
        struct append_memory *to = &after->array[before->in_place ? ARRAY_QUERY : ARRAY_QUERY_OUT];
        read_row(&before->array[ARRAY_QUERY], rows.pack, h, rows.first + i, row);
        norm(before, CLATTN_WITH_QUERY_NORM, ARRAY_QUERY_NORM_WEIGHT, p->head_dim, row);
        turn(before, b, i, row);
        for (int64_t c = 0; c < p->head_dim; ++c) {
            type_store(to->type, to->data, append_memory_at(to, rows.pack, h, rows.first + i, c), row[c]);
        }
    }
    for (int64_t h = 0; h < p->kv_heads && place.is_there; ++h) {
        read_row(&before->array[ARRAY_KEY], rows.pack, h, rows.first + i, row);
        norm(before, CLATTN_WITH_KEY_NORM, ARRAY_KEY_NORM_WEIGHT, p->head_dim, row);
        turn(before, b, i, row);
        struct append_memory *to = after->array;
        const struct made keys = { &to[ARRAY_KEY_SCALES_OUT], &to[ARRAY_KEY_ZERO_POINTS], &to[ARRAY_KEY_TENSOR_SCALE],
                                   p->key_scale_columns };
        const struct made values = { &to[ARRAY_VALUE_SCALES_OUT], &to[ARRAY_VALUE_ZERO_POINTS],
                                     &to[ARRAY_VALUE_TENSOR_SCALE], p->value_scale_columns };
        if (type_makes_scales(p->key_type)) {
            write_made_row(&to[ARRAY_KEY_CACHE], &keys, &place, h, row);
        } else {
            write_row(&to[ARRAY_KEY_CACHE], &before->array[ARRAY_KEY_SCALES], p->key_scale_rows, p->key_scale_columns,
                      &place, h, row);
        }
        read_row(&before->array[ARRAY_VALUE], rows.pack, h, rows.first + i, row);
        norm(before, CLATTN_WITH_VALUE_NORM, ARRAY_KEY_NORM_WEIGHT, p->head_dim_v, row);
        if (type_makes_scales(p->value_type)) {
            write_made_row(&to[ARRAY_VALUE_CACHE], &values, &place, h, row);
        } else {
            write_row(&to[ARRAY_VALUE_CACHE], &before->array[ARRAY_VALUE_SCALES], p->value_scale_rows,
                      p->value_scale_columns, &place, h, row);
        }
    }
}

void append_call_expect(const struct append_call_test *before, struct append_call_test *expected)
{
    *expected = *before;
    for (int id = 0; id < ARRAYS; ++id) {
        if (before->array[id].data) {
            expected->array[id].data = malloc(before->array[id].bytes);
            memcpy(expected->array[id].data, before->array[id].data, before->array[id].bytes);
        }
    }
    for (int64_t b = 0; b < before->problem.batch; ++b) {
        for (int64_t i = 0; i < append_rows_of(before, b).count; ++i) {
            expect_row(before, expected, b, i);
        }
    }
}

/* ---- differences ------------------------------------------------------------------------------ */

/* How far apart two values of one type may be where the rotation rounded before. */
static double room(clattn_type type, const unsigned char *block, double value)
{
    const double magnitude = fabs(value);
    double step = 0;
    switch (type) {
    case CLATTN_FLOAT64:
        return 1e-14;
    case CLATTN_FLOAT32:
        return 3e-6;
    case CLATTN_FLOAT16:
        return 3e-6 + magnitude * 0x1p-10;
    case CLATTN_BFLOAT16:
        return 3e-6 + magnitude * 0x1p-7;
    case CLATTN_INT8:
    case CLATTN_INT4:
    case CLATTN_U8:
    case CLATTN_U4:
        return 1;
    case CLATTN_MXFP4:
    case CLATTN_NVFP4:
        return 2;
    case CLATTN_E8M0:
        return 0;
    case CLATTN_MXFP8:
    case CLATTN_E4M3:
        return 0x1p-9 + magnitude * 0x1p-3;
    case CLATTN_E5M2:
        return 0x1p-16 + magnitude * 0x1p-2;
    case CLATTN_MXFP4_GGML: /* the largest step of a code */
        return 2.1 * ldexp(1, block[0] - 127);
    case CLATTN_NVFP4_GGML: /* and one of a scale */
        for (int i = 0; i < 4; ++i) {
            step = fmax(step, 2.1 * e4m3_to_double(block[i]));
        }
        return step + 0.13 * magnitude;
    default: /* a step of the block, and of its scale */
        return 1.05 * fabs(half_to_double((uint16_t)(block[0] | block[1] << 8))) + 0.005 * magnitude;
    }
}

static int is_near(double a, double b, double limit)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= limit;
}

const char *append_call_difference(const struct append_call_test *expected, const struct append_call_test *got)
{
    static const char *const names[ARRAYS] = { "key",
                                               "value",
                                               "key_cache",
                                               "value_cache",
                                               "query",
                                               "query_out",
                                               "cosine",
                                               "sine",
                                               "positions",
                                               "starts",
                                               "slots",
                                               "cu_query",
                                               "page_table",
                                               "page_starts",
                                               "key_scales",
                                               "value_scales",
                                               "a pool",
                                               "a pool",
                                               "a pool",
                                               "a pool",
                                               "a pool",
                                               "a pool",
                                               "query_norm_weight",
                                               "key_norm_weight",
                                               "key_scales_out",
                                               "value_scales_out",
                                               "key_zero_points",
                                               "value_zero_points",
                                               "key_tensor_scale",
                                               "value_tensor_scale" };
    static char text[200];
    for (int id = 0; id < ARRAYS; ++id) {
        const struct append_memory *a = &expected->array[id], *b = &got->array[id];
        const size_t unit = a->type ? clattn_type_size(a->type) : sizeof(int32_t);
        const int64_t columns = a->type ? clattn_type_columns(a->type) : 1;
        const int is_computed =
            (has(expected, APPEND_NORMS | CLATTN_WITH_ROTARY) &&
             (id == ARRAY_KEY_CACHE || id == ARRAY_QUERY_OUT || id == ARRAY_QUERY || id == ARRAY_KEY_SCALES_OUT ||
              id == ARRAY_KEY_ZERO_POINTS)) ||
            (has(expected, CLATTN_WITH_VALUE_NORM) &&
             (id == ARRAY_VALUE_CACHE || id == ARRAY_VALUE_SCALES_OUT || id == ARRAY_VALUE_ZERO_POINTS));
        const double times = id == ARRAY_KEY_ZERO_POINTS || id == ARRAY_VALUE_ZERO_POINTS ? 1000 : 1; /* codes */
        for (size_t n = 0; a->data && n < a->bytes / unit; ++n) {
            int same = memcmp(a->data + n * unit, b->data + n * unit, unit) == 0;
            for (int64_t c = 0; c < columns && !same && a->type; ++c) {
                const double x = type_load(a->type, a->data, (int64_t)n * columns + c);
                const double y = type_load(a->type, b->data, (int64_t)n * columns + c);
                const int is_equal = x == y && !signbit(x) == !signbit(y); /* another column of the unit is not */
                if (!is_equal && !is_near(x, y, is_computed ? times * room(a->type, a->data + n * unit, x) : -1)) {
                    snprintf(text, sizeof(text), "%s, %s: unit %zu, column %d: %g, must be %g", names[id],
                             clattn_type_name(a->type), n, (int)c, y, x);
                    return text;
                }
                same = c == columns - 1;
            }
            if (!same) {
                snprintf(text, sizeof(text), "%s: unit %zu was changed", names[id], n);
                return text;
            }
        }
    }
    return NULL;
}
