/* Shapes, strides with gaps, and values. */
#include "append_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"

#define GUARD 0xa5
#define PADDING 64 /* elements before and behind */

int64_t append_memory_at(const struct append_memory *memory, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return memory->offset + b * memory->stride[0] + h * memory->stride[1] + i * memory->stride[2] +
           c * memory->stride[3];
}

int32_t append_memory_int(const struct append_memory *memory, int64_t b, int64_t i, int64_t c)
{
    return ((const int32_t *)(const void *)memory->data)[append_memory_at(memory, b, 0, i, c)];
}

struct append_rows append_rows_of(const struct append_call_test *test, int64_t b)
{
    const clattn_append_problem *p = &test->problem;
    struct append_rows rows = { 0, test->call.query_len >= 0 ? test->call.query_len : p->query_len, b };
    if (p->features & CLATTN_WITH_VARLEN) {
        rows.first = append_memory_int(&test->array[ARRAY_CU_QUERY], 0, 0, b);
        rows.count = append_memory_int(&test->array[ARRAY_CU_QUERY], 0, 0, b + 1) - rows.first;
        rows.pack = 0;
    }
    return rows;
}

/* Rows before heads or behind them, a gap between rows, an offset. */
static void make(struct append_memory *memory, struct random *random, clattn_type type, const int64_t shape[4],
                 int column_step)
{
    const int64_t block = type ? clattn_type_columns(type) : 1;
    const int64_t gap = random_chance(random, 0.5) ? (block > 1 ? block : random_between(random, 1, 5)) : 0;
    const int64_t row = shape[3] * column_step + gap;
    memory->type = type;
    memcpy(memory->shape, shape, sizeof(memory->shape));
    memory->stride[3] = column_step;
    if (random_chance(random, 0.5)) {
        clattn_strides_bhsd(shape[1], shape[2], row, memory->stride);
    } else {
        clattn_strides_bshd(shape[1], shape[2], row, memory->stride);
    }
    memory->stride[3] = column_step;
    memory->offset = PADDING + (block > 1 ? block * random_between(random, 0, 1) : random_between(random, 0, 3));
    const int64_t elements = memory->offset + shape[0] * shape[1] * shape[2] * row + PADDING;
    memory->bytes = (size_t)(elements / block) * (type ? clattn_type_size(type) : sizeof(int32_t));
    memory->data = malloc(memory->bytes);
    memset(memory->data, GUARD, memory->bytes);
}

static int64_t groups(int64_t count, int64_t shared)
{
    return shared > 0 ? (count + shared - 1) / shared : 1;
}

#define KEY_GROUPS                                                                                                     \
    {                                                                                                                  \
        cache_packs, p->kv_heads, cache_rows, groups(p->head_dim, p->key_scale_columns)                                \
    }
#define VALUE_GROUPS                                                                                                   \
    {                                                                                                                  \
        cache_packs, p->kv_heads, cache_rows, groups(p->head_dim_v, p->value_scale_columns)                            \
    }

void append_memory_make(struct append_call_test *test, struct random *random)
{
    const clattn_append_problem *p = &test->problem;
    const int packed = (p->features & CLATTN_WITH_VARLEN) != 0, pool = p->page_size > 0;
    const int one_line = (p->features & CLATTN_WITH_PAGE_STARTS) != 0;
    const int by_token = (p->features & CLATTN_WITH_TOKEN_TABLES) != 0;
    const int weighted = (p->features & CLATTN_WITH_NORM_WEIGHTS) != 0;
    const int64_t packs = packed ? 1 : p->batch, rows = packed ? p->batch * p->query_len : p->query_len;
    const int64_t cache_packs = pool ? p->pages : p->batch, cache_rows = pool ? p->page_size : p->capacity;
    const int64_t columns = p->columns ? p->columns : p->head_dim - p->first_column;
    const int64_t table_pages = pool ? groups(p->capacity, p->page_size) : 0;
    const struct {
        int wanted;
        clattn_type type;
        int64_t shape[4];
        int has_columns; /* which may be strided */
    } arrays[ARRAYS] = {
        [ARRAY_KEY] = { 1, p->type, { packs, p->kv_heads, rows, p->head_dim }, 1 },
        [ARRAY_VALUE] = { 1, p->type, { packs, p->kv_heads, rows, p->head_dim_v }, 1 },
        [ARRAY_KEY_CACHE] = { 1, p->key_type, { cache_packs, p->kv_heads, cache_rows, p->head_dim }, 1 },
        [ARRAY_VALUE_CACHE] = { 1, p->value_type, { cache_packs, p->kv_heads, cache_rows, p->head_dim_v }, 1 },
        [ARRAY_QUERY] = { p->query_heads > 0, p->type, { packs, p->query_heads, rows, p->head_dim }, 1 },
        [ARRAY_QUERY_OUT] = { p->query_heads > 0 && !test->in_place,
                              p->type,
                              { packs, p->query_heads, rows, p->head_dim },
                              1 },
        [ARRAY_COSINE] = { (p->features & CLATTN_WITH_ROTARY) != 0,
                           CLATTN_FLOAT32,
                           { by_token ? packs : 1, 1, by_token ? rows : p->positions, columns / 2 },
                           1 },
        [ARRAY_SINE] = { (p->features & CLATTN_WITH_ROTARY) != 0,
                         CLATTN_FLOAT32,
                         { by_token ? packs : 1, 1, by_token ? rows : p->positions, columns / 2 },
                         1 },
        [ARRAY_POSITIONS] = { (p->features & CLATTN_WITH_POSITIONS) != 0, CLATTN_TYPE_NONE, { packs, 1, rows, 1 }, 0 },
        [ARRAY_STARTS] = { (p->features & CLATTN_WITH_STARTS) != 0, CLATTN_TYPE_NONE, { 1, 1, 1, p->batch }, 0 },
        [ARRAY_SLOTS] = { (p->features & CLATTN_WITH_SLOTS) != 0, CLATTN_TYPE_NONE, { packs, 1, rows, 1 }, 0 },
        [ARRAY_CU_QUERY] = { packed, CLATTN_TYPE_NONE, { 1, 1, 1, p->batch + 1 }, 0 },
        [ARRAY_PAGE_TABLE] = { (p->features & CLATTN_WITH_PAGES) != 0,
                               CLATTN_TYPE_NONE,
                               { one_line ? 1 : p->batch, 1, 1, one_line ? p->batch * table_pages : table_pages },
                               0 },
        [ARRAY_PAGE_STARTS] = { one_line, CLATTN_TYPE_NONE, { 1, 1, 1, p->batch + 1 }, 0 },
        [ARRAY_KEY_SCALES] = { (p->features & CLATTN_WITH_KEY_SCALES) != 0 && !type_makes_scales(p->key_type),
                               CLATTN_FLOAT32,
                               { cache_packs, p->kv_heads, groups(cache_rows, p->key_scale_rows),
                                 groups(p->head_dim, p->key_scale_columns) },
                               0 },
        [ARRAY_VALUE_SCALES] = { (p->features & CLATTN_WITH_VALUE_SCALES) != 0 && !type_makes_scales(p->value_type),
                                 CLATTN_FLOAT32,
                                 { cache_packs, p->kv_heads, groups(cache_rows, p->value_scale_rows),
                                   groups(p->head_dim_v, p->value_scale_columns) },
                                 0 },
        [ARRAY_QUERY_NORM_WEIGHT] = { weighted && p->features & CLATTN_WITH_QUERY_NORM,
                                      CLATTN_FLOAT32,
                                      { 1, 1, 1, p->head_dim },
                                      0 },
        [ARRAY_KEY_NORM_WEIGHT] = { weighted && p->features & CLATTN_WITH_KEY_NORM,
                                    CLATTN_FLOAT32,
                                    { 1, 1, 1, p->head_dim },
                                    0 },
        [ARRAY_KEY_SCALES_OUT] = { type_makes_scales(p->key_type), type_of_scales(p->key_type), KEY_GROUPS, 0 },
        [ARRAY_VALUE_SCALES_OUT] = { type_makes_scales(p->value_type), type_of_scales(p->value_type), VALUE_GROUPS, 0 },
        [ARRAY_KEY_ZERO_POINTS] = { type_has_zero_points(p->key_type), CLATTN_FLOAT32, KEY_GROUPS, 0 },
        [ARRAY_VALUE_ZERO_POINTS] = { type_has_zero_points(p->value_type), CLATTN_FLOAT32, VALUE_GROUPS, 0 },
        [ARRAY_KEY_TENSOR_SCALE] = { type_has_tensor_scale(p->key_type), CLATTN_FLOAT32, { 1, 1, 1, 1 }, 0 },
        [ARRAY_VALUE_TENSOR_SCALE] = { type_has_tensor_scale(p->value_type), CLATTN_FLOAT32, { 1, 1, 1, 1 }, 0 },
    };
    for (int id = 0; id < ARRAYS; ++id) {
        if (arrays[id].wanted) {
            make(&test->array[id], random, arrays[id].type, arrays[id].shape,
                 arrays[id].has_columns && p->strided_columns ? 2 : 1);
        }
    }
}

/* ---- values ----------------------------------------------------------------------------------- */

static void fill_floats(struct append_memory *memory, struct random *random, double least)
{
    for (int64_t n = 0; memory->data && n < memory->shape[0] * memory->shape[1] * memory->shape[2]; ++n) {
        const int64_t i = n % memory->shape[2], h = n / memory->shape[2] % memory->shape[1];
        for (int64_t c = 0; c < memory->shape[3]; ++c) {
            const double value = random_normal(random);
            type_store(memory->type, memory->data,
                       append_memory_at(memory, n / memory->shape[2] / memory->shape[1], h, i, c),
                       least > 0 ? least * (1 + fabs(value)) : value);
        }
    }
}

static void set_int(struct append_memory *memory, int64_t b, int64_t i, int64_t c, int64_t value)
{
    ((int32_t *)(void *)memory->data)[append_memory_at(memory, b, 0, i, c)] = (int32_t)value;
}

/* Cosines and sines of any angles. */
static void fill_tables(struct append_call_test *test, struct random *random)
{
    struct append_memory *cosine = &test->array[ARRAY_COSINE], *sine = &test->array[ARRAY_SINE];
    for (int64_t n = 0; cosine->data && n < cosine->shape[0] * cosine->shape[2]; ++n) {
        for (int64_t c = 0; c < cosine->shape[3]; ++c) {
            const double angle = 10 * random_normal(random);
            const int64_t b = n / cosine->shape[2], i = n % cosine->shape[2];
            type_store(CLATTN_FLOAT32, cosine->data, append_memory_at(cosine, b, 0, i, c), cos(angle));
            type_store(CLATTN_FLOAT32, sine->data, append_memory_at(sine, b, 0, i, c), sin(angle));
        }
    }
}

/* What is none of [0, end): often the first one behind. */
static int64_t nonsense(struct random *random, int64_t end)
{
    static const int64_t values[] = { INT32_MAX, INT32_MIN, -2, -1000, 1 << 20 };
    return random_chance(random, 0.6) ? end + random_between(random, 0, 1) : values[random_between(random, 0, 4)];
}

/* A value of [0, end), or at times what is none. */
static int64_t draw_int(struct random *random, int64_t end, int hostile)
{
    return hostile && random_chance(random, 0.3) ? nonsense(random, end) : random_between(random, 0, end - 1);
}

static void fill_seams(struct append_call_test *test, struct random *random)
{
    struct append_memory *seams = &test->array[ARRAY_CU_QUERY];
    int64_t row = 0;
    for (int64_t b = 0; seams->data && b <= test->problem.batch; ++b) {
        set_int(seams, 0, 0, b, row);
        row += random_between(random, 0, test->problem.query_len);
    }
}

/* Slots differ from one another: two rows in one place would be either of them. */
static void fill_slots(struct append_call_test *test, struct random *random, int hostile)
{
    const clattn_append_problem *p = &test->problem;
    struct append_memory *slots = &test->array[ARRAY_SLOTS];
    const int64_t most = p->page_size > 0 ? p->pages * p->page_size : p->capacity;
    for (int64_t b = 0; slots->data && b < slots->shape[0]; ++b) {
        const int64_t base = p->page_size > 0 ? b * most / slots->shape[0] : 0;
        const int64_t end = p->page_size > 0 ? (b + 1) * most / slots->shape[0] : most;
        for (int64_t i = 0; i < slots->shape[2]; ++i) {
            const int64_t slot = base + (end - 1 - base - i);
            set_int(slots, b, i, 0,
                    hostile && random_chance(random, 0.3)        ? nonsense(random, most)
                    : slot >= base && random_chance(random, 0.8) ? slot
                                                                 : -1);
        }
    }
}

/* Pages that belong to one sequence each, in any order, a hole now and then. */
static void fill_pages(struct append_call_test *test, struct random *random, int hostile)
{
    const clattn_append_problem *p = &test->problem;
    struct append_memory *table = &test->array[ARRAY_PAGE_TABLE], *starts = &test->array[ARRAY_PAGE_STARTS];
    const int64_t each = table->data ? groups(p->capacity, p->page_size) : 0;
    for (int64_t n = 0; n < p->batch * each; ++n) {
        const int64_t page = (n * 7 + 1) % p->pages, unique = p->pages % 7 ? page : n;
        const int64_t entry = random_chance(random, 0.1) ? -1 : unique;
        set_int(table, starts->data ? 0 : n / each, 0, starts->data ? n : n % each,
                hostile && random_chance(random, 0.3) ? nonsense(random, p->pages) : entry);
    }
    const int64_t fewer = hostile && random_chance(random, 0.5); /* pages than the capacity needs */
    for (int64_t b = 0; starts->data && b <= p->batch; ++b) {
        set_int(starts, 0, 0, b, b * (each - fewer));
    }
}

void append_memory_fill(struct append_call_test *test, struct random *random, int hostile)
{
    const clattn_append_problem *p = &test->problem;
    struct append_memory *a = test->array;
    static const enum append_array rows[] = { ARRAY_KEY, ARRAY_VALUE, ARRAY_QUERY };
    for (size_t i = 0; i < 3; ++i) {
        fill_floats(&a[rows[i]], random, 0);
    }
    fill_floats(&a[ARRAY_KEY_SCALES], random, 0.01);
    fill_floats(&a[ARRAY_VALUE_SCALES], random, 0.01);
    for (int id = ARRAY_KEY_SCALES_OUT; id <= ARRAY_VALUE_TENSOR_SCALE; ++id) {
        fill_floats(&a[id], random, 0.01);
    }
    fill_floats(&a[ARRAY_QUERY_NORM_WEIGHT], random, 0);
    fill_floats(&a[ARRAY_KEY_NORM_WEIGHT], random, 0);
    fill_tables(test, random);
    fill_seams(test, random);
    fill_slots(test, random, hostile);
    fill_pages(test, random, hostile);
    for (int64_t b = 0; a[ARRAY_POSITIONS].data && b < a[ARRAY_POSITIONS].shape[0]; ++b) {
        for (int64_t i = 0; i < a[ARRAY_POSITIONS].shape[2]; ++i) {
            set_int(&a[ARRAY_POSITIONS], b, i, 0, draw_int(random, p->positions, hostile));
        }
    }
    for (int64_t b = 0; a[ARRAY_STARTS].data && b < p->batch; ++b) {
        const int64_t most = p->ring > 0 ? 3 * p->ring : p->capacity - p->query_len;
        set_int(&a[ARRAY_STARTS], 0, 0, b, draw_int(random, most + 1, hostile));
    }
}

/* What 32 columns are, those of a block or of half of one: a value among others, or all of zeros. */
static double end_value(int kind, int64_t column, int64_t at, double other)
{
    static const double ends[] = { (double)INFINITY, -(double)INFINITY, (double)NAN, -1e30, 1e30, 449, -57345 };
    const int count = (int)(sizeof(ends) / sizeof(ends[0]));
    if (kind < count) {
        return column == at ? ends[kind] : other;
    }
    return kind == count       ? (column == at ? -0.0 : 0.0)  /* zeros, one of them negative */
           : kind == count + 1 ? (column == at ? 0.0 : -0.0)  /* one of them positive */
           : kind == count + 2 ? (column == at ? -0.0 : 0.25) /* the least is a zero */
                               : (column < at ? -0.0 : fabs(other));
}
#define END_KINDS 11

void append_memory_put_ends(struct append_call_test *test, struct random *random)
{
    static const enum append_array rows[] = { ARRAY_KEY, ARRAY_VALUE };
    for (size_t id = 0; id < 2; ++id) {
        struct append_memory *m = &test->array[rows[id]];
        for (int64_t n = 0; n < m->shape[0] * m->shape[1] * m->shape[2]; ++n) {
            const int64_t i = n % m->shape[2], h = n / m->shape[2] % m->shape[1], b = n / m->shape[2] / m->shape[1];
            int kind = 0;
            int64_t at = 0;
            for (int64_t c = 0; c < m->shape[3]; ++c) {
                if (c % 32 == 0) {
                    kind = (int)random_between(random, 0, END_KINDS - 1);
                    at = random_chance(random, 0.5) ? 0 : random_between(random, 1, 31);
                }
                type_store(m->type, m->data, append_memory_at(m, b, h, i, c),
                           end_value(kind, c % 32, at, random_normal(random)));
            }
        }
    }
}
