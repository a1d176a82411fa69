/* Keys and values that are codes, and rings, by the public functions: the same bits as over dequantised float32 keys
 * and values, as in contiguous memory, and as without what no row may see. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/stored_types.h"
#include "program/context.h"
#include "support/device_options.h"
#include "support/random.h"

#define HEADS 4
#define KV_HEADS 2
#define ROWS 3
#define KEYS 70
#define HEAD_DIM 128
#define HEAD_DIM_V 64
#define ROW_BYTES (HEAD_DIM * 4)
#define PAGE 16
#define PAGES 4 /* for the first 64 keys */

/* Keys or values of one call: rows of any type, a scale each. */
struct rows {
    int64_t columns;
    float real[KV_HEADS][KEYS][HEAD_DIM]; /* what the codes stand for */
    unsigned char stored[KV_HEADS * KEYS * ROW_BYTES];
    float scales[KV_HEADS][KEYS];
};

struct calls {
    float query[HEADS][ROWS][HEAD_DIM];
    struct rows key, value;
    float out[HEADS][ROWS][HEAD_DIM_V], expected[HEADS][ROWS][HEAD_DIM_V];
};

static const char *strategies[OPTIONS_STRATEGIES_MAX]; /* those for CPUs that read codes */
static size_t n_strategies;

static unsigned char *row_of(struct rows *rows, clattn_type type, int64_t head, int64_t row)
{
    return rows->stored + (head * KEYS + row) * (int64_t)clattn_row_bytes(type, rows->columns);
}

/* Random rows, as codes and as what these stand for. */
static void fill(struct random *random, struct rows *rows, clattn_type type, int64_t columns)
{
    rows->columns = columns;
    for (int head = 0; head < KV_HEADS; ++head) {
        for (int j = 0; j < KEYS; ++j) {
            float values[HEAD_DIM];
            float *scale = &rows->scales[head][j], *used = type_takes_scales(type) ? scale : NULL;
            *scale = (float)(0.01 + 0.02 * random_unit(random));
            for (int64_t c = 0; c < columns; ++c) {
                values[c] = (float)random_normal(random);
            }
            EXPECT_OK(clattn_quantise(type, columns, values, used, 0, row_of(rows, type, head, j)));
            EXPECT_OK(clattn_dequantise(type, columns, row_of(rows, type, head, j), used, 0, rows->real[head][j]));
        }
    }
}

static void start(struct calls *calls, clattn_type key_type, clattn_type value_type)
{
    struct random random = random_start(7, (uint64_t)key_type * 100 + (uint64_t)value_type);
    memset(calls, 0, sizeof(*calls));
    for (int64_t i = 0; i < HEADS * ROWS * HEAD_DIM; ++i) {
        ((float *)calls->query)[i] = (float)random_normal(&random);
    }
    fill(&random, &calls->key, key_type, HEAD_DIM);
    fill(&random, &calls->value, value_type, HEAD_DIM_V);
}

static clattn_problem problem_of(clattn_type key_type, clattn_type value_type, const char *strategy)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.query_heads = HEADS;
    p.kv_heads = KV_HEADS;
    p.query_len = ROWS;
    p.key_len = KEYS;
    p.head_dim = HEAD_DIM;
    p.head_dim_v = HEAD_DIM_V;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.key_type = key_type;
    p.value_type = value_type;
    p.strategy = strategy;
    if (type_takes_scales(key_type)) {
        p.features |= CLATTN_WITH_KEY_SCALES;
        p.key_scale_rows = 1;
    }
    if (type_takes_scales(value_type)) {
        p.features |= CLATTN_WITH_VALUE_SCALES;
        p.value_scale_rows = 1;
    }
    return p;
}

static void find_strategies(void)
{
    const int is_gpu = context->device.device_class == DEVICE_GPU;
    const char *name;
    n_strategies = 0;
    for (size_t i = 0; (name = strategy_of_table(i)); ++i) {
        const clattn_problem p = problem_of(CLATTN_Q8_0, CLATTN_INT8, name);
        clattn_plan *plan;
        if ((is_gpu || !strategy_is_for_gpus(name)) && clattn_plan_create(context, &p, &plan) == CLATTN_OK) {
            clattn_plan_destroy(plan);
            strategies[n_strategies++] = name;
        }
    }
    ck_assert_uint_ge(n_strategies, 3);
}

/* Codes, in [head, key] order. */
static clattn_host_tensors tensors_of(struct calls *calls, const clattn_problem *p)
{
    clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
    t.query = clattn_host_tensor_bhsd(calls->query, HEADS, ROWS, HEAD_DIM);
    t.out = clattn_host_tensor_bhsd(calls->out, HEADS, ROWS, HEAD_DIM_V);
    t.key = clattn_host_tensor_bhsd(calls->key.stored, KV_HEADS, KEYS, HEAD_DIM);
    t.value = clattn_host_tensor_bhsd(calls->value.stored, KV_HEADS, KEYS, HEAD_DIM_V);
    if (p->features & CLATTN_WITH_KEY_SCALES) {
        t.key_scales = clattn_host_tensor_bhsd(calls->key.scales, KV_HEADS, KEYS, 1);
    }
    if (p->features & CLATTN_WITH_VALUE_SCALES) {
        t.value_scales = clattn_host_tensor_bhsd(calls->value.scales, KV_HEADS, KEYS, 1);
    }
    return t;
}

/* These values as float32. */
static void run_real(struct calls *calls, clattn_problem p)
{
    static float value[KV_HEADS][KEYS][HEAD_DIM_V];
    for (int64_t i = 0; i < KV_HEADS * KEYS; ++i) {
        memcpy(value[i / KEYS][i % KEYS], calls->value.real[i / KEYS][i % KEYS], sizeof(value[0][0]));
    }
    p.key_type = p.value_type = CLATTN_FLOAT32;
    p.features &= ~(uint32_t)(CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES);
    p.key_scale_rows = p.value_scale_rows = 0;
    clattn_host_tensors t = tensors_of(calls, &p);
    t.key = clattn_host_tensor_bhsd(calls->key.real, KV_HEADS, KEYS, HEAD_DIM);
    t.value = clattn_host_tensor_bhsd(value, KV_HEADS, KEYS, HEAD_DIM_V);
    t.out.data = calls->expected;
    EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
}

static void ck_bits(const struct calls *calls, const char *strategy, clattn_type type, const char *what)
{
    ck_assert_msg(memcmp(calls->out, calls->expected, sizeof(calls->out)) == 0, "%s, %s: %s", strategy,
                  clattn_type_name(type), what);
    for (int64_t i = 0; i < HEADS * ROWS * HEAD_DIM_V; ++i) {
        ck_assert(isfinite(((const float *)calls->out)[i]));
    }
}

/* Each type for keys, with each of another for values, on each strategy. */
START_TEST(test_as_dequantised)
{
    static struct calls calls;
    find_strategies();
    for (int type = CLATTN_INT8; type <= CLATTN_INT4; ++type) {
        const clattn_type key = (clattn_type)type;
        const clattn_type value = type < CLATTN_INT4 ? (clattn_type)(type + 1) : CLATTN_INT8;
        start(&calls, key, value);
        for (size_t s = 0; s < n_strategies; ++s) {
            const clattn_problem p = problem_of(key, value, strategies[s]);
            const clattn_host_tensors t = tensors_of(&calls, &p);
            EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
            run_real(&calls, p);
            ck_bits(&calls, strategies[s], key, "differs from float32 keys and values");
        }
    }
}
END_TEST

/* What stands behind the lengths: blocks and scales of NaN. */
static void poison_behind(struct rows *rows, clattn_type type, int64_t length)
{
    for (int64_t head = 0; head < KV_HEADS; ++head) {
        for (int64_t j = length; j < KEYS; ++j) {
            memset(row_of(rows, type, head, j), 0xff, clattn_row_bytes(type, rows->columns));
            rows->scales[head][j] = NAN;
        }
    }
}

/* What is expected is what a call with this key length gives; the call's tensors. */
static clattn_host_tensors expect_of_length(struct calls *calls, clattn_problem *p, int32_t *length)
{
    p->features |= CLATTN_WITH_KEY_LENGTHS;
    clattn_host_tensors t = tensors_of(calls, p);
    t.key_lengths.data = length;
    EXPECT_OK(clattn_forward_host(context, p, NULL, &t));
    memcpy(calls->expected, calls->out, sizeof(calls->out));
    return t;
}

START_TEST(test_nothing_behind_the_lengths)
{
    static struct calls calls;
    static const clattn_type types[] = { CLATTN_Q8_0, CLATTN_INT8, CLATTN_MXFP4_GGML, CLATTN_INT4 };
    int32_t length = 41;
    find_strategies();
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) * n_strategies; ++i) {
        const clattn_type type = types[i / n_strategies];
        start(&calls, type, type);
        clattn_problem p = problem_of(type, type, strategies[i % n_strategies]);
        clattn_host_tensors t = expect_of_length(&calls, &p, &length);
        poison_behind(&calls.key, type, length);
        poison_behind(&calls.value, type, length);
        EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
        ck_bits(&calls, p.strategy, type, "what is behind the lengths was seen");
    }
}
END_TEST

/* Rows to where the table says: [page, head, row of the page]. */
static void scatter(struct rows *rows, clattn_type type, struct rows *to, const int32_t *table)
{
    const int64_t bytes = (int64_t)clattn_row_bytes(type, rows->columns);
    to->columns = rows->columns;
    for (int64_t head = 0; head < KV_HEADS; ++head) {
        for (int64_t j = 0; j < PAGES * PAGE; ++j) {
            const int64_t at = (table[j / PAGE] * KV_HEADS + head) * PAGE + j % PAGE;
            memcpy(to->stored + at * bytes, row_of(rows, type, head, j), (size_t)bytes);
            ((float *)to->scales)[at] = rows->scales[head][j];
        }
    }
}

/* Pages in another order, with their scales. */
START_TEST(test_as_contiguous)
{
    static struct calls calls;
    static struct rows key, value;
    static const clattn_type types[] = { CLATTN_Q4_0, CLATTN_E4M3, CLATTN_NVFP4_GGML };
    int32_t table[PAGES + 1] = { 3, 0, 2, 1, -1 }, length = PAGES * PAGE;
    find_strategies();
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) * n_strategies; ++i) {
        const clattn_type type = types[i / n_strategies];
        start(&calls, type, type);
        clattn_problem p = problem_of(type, type, strategies[i % n_strategies]);
        clattn_host_tensors t = expect_of_length(&calls, &p, &length);
        scatter(&calls.key, type, &key, table);
        scatter(&calls.value, type, &value, table);
        p.features |= CLATTN_WITH_PAGES;
        p.page_size = PAGE;
        p.pages = PAGES;
        t.key = clattn_host_tensor_bhsd(key.stored, KV_HEADS, PAGE, HEAD_DIM);
        t.value = clattn_host_tensor_bhsd(value.stored, KV_HEADS, PAGE, HEAD_DIM_V);
        t.key_scales.data = t.key_scales.data ? key.scales : NULL;
        t.value_scales.data = t.value_scales.data ? value.scales : NULL;
        clattn_strides_bhsd(KV_HEADS, PAGE, 1, t.key_scales.stride);
        clattn_strides_bhsd(KV_HEADS, PAGE, 1, t.value_scales.stride);
        t.page_table.data = table;
        t.page_table.stride[3] = 1;
        EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
        ck_bits(&calls, p.strategy, type, "pages differ from contiguous memory");
    }
}
END_TEST

/* Each key into its row of the ring, one after the other. */
static void wind(struct rows *rows, clattn_type type, struct rows *to, int64_t ring, int64_t pinned)
{
    const size_t bytes = clattn_row_bytes(type, rows->columns);
    memset(to, 0xff, sizeof(*to));
    to->columns = rows->columns;
    for (int64_t head = 0; head < KV_HEADS; ++head) {
        for (int64_t j = 0; j < KEYS; ++j) {
            const int64_t row = j < pinned ? j : pinned + (j - pinned) % (ring - pinned);
            memcpy(to->stored + (head * ring + row) * (int64_t)bytes, row_of(rows, type, head, j), bytes);
            ((float *)to->scales)[head * ring + row] = rows->scales[head][j];
        }
    }
}

/* A window over a ring has the bits of one over all keys. */
START_TEST(test_rings)
{
    static struct calls calls;
    static struct rows key, value;
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_Q8_0, CLATTN_INT8 };
    find_strategies();
    for (size_t i = 0; i < 6 * n_strategies; ++i) {
        const clattn_type type = types[i / 2 / n_strategies];
        const int64_t pinned = i / n_strategies % 2 ? 5 : 0;
        start(&calls, type, type);
        clattn_problem p = problem_of(type, type, strategies[i % n_strategies]);
        p.window_left = 20;
        p.always_visible_keys = pinned;
        clattn_host_tensors t = tensors_of(&calls, &p);
        EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
        memcpy(calls.expected, calls.out, sizeof(calls.out));
        p.ring = pinned + 20 + ROWS;
        wind(&calls.key, type, &key, p.ring, pinned);
        wind(&calls.value, type, &value, p.ring, pinned);
        t.key = clattn_host_tensor_bhsd(key.stored, KV_HEADS, p.ring, HEAD_DIM);
        t.value = clattn_host_tensor_bhsd(value.stored, KV_HEADS, p.ring, HEAD_DIM_V);
        if (t.key_scales.data) {
            t.key_scales = clattn_host_tensor_bhsd(key.scales, KV_HEADS, p.ring, 1);
            t.value_scales = clattn_host_tensor_bhsd(value.scales, KV_HEADS, p.ring, 1);
        }
        EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
        ck_bits(&calls, p.strategy, type, "a ring differs from all keys");
    }
}
END_TEST

/* What cannot be had is said. */
START_TEST(test_who_declines)
{
    clattn_problem p = problem_of(CLATTN_Q8_0, CLATTN_Q8_0, "staged");
    clattn_plan *plan;
    expect_error(clattn_plan_create(context, &p, &plan), CLATTN_UNSUPPORTED, "q8_0 keys and q8_0 values", "plan");
    p = problem_of(CLATTN_FLOAT32, CLATTN_FLOAT32, "staged");
    p.window_left = 2;
    p.ring = 10;
    expect_error(clattn_plan_create(context, &p, &plan), CLATTN_UNSUPPORTED, "a ring do not", "plan");
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_as_dequantised);
    tcase_add_test(tests, test_nothing_behind_the_lengths);
    tcase_add_test(tests, test_as_contiguous);
    tcase_add_test(tests, test_rings);
    tcase_add_test(tests, test_who_declines);
}

int main(void)
{
    return api_main("codes", add);
}
