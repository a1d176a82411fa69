/* The keys of a call that are codes, and the numbers that they stand for. */
#include "coded_keys.h"

#include "base/stored_types.h"

#define HEADS 4
#define KV_HEADS 2
#define HEAD_DIM 64
#define HEAD_DIM_V 96

/* Nearly every block type, and both ways to share scales: by tokens, by groups of columns. */
struct coding {
    clattn_type key_type, value_type;
    int64_t key_scale_rows, key_scale_columns, value_scale_rows, value_scale_columns;
};
static const struct coding codings[] = {
    { CLATTN_Q8_0, CLATTN_Q5_1, 0, 0, 0, 0 },     { CLATTN_Q4_1, CLATTN_Q4_0, 0, 0, 0, 0 },
    { CLATTN_INT8, CLATTN_E4M3, 1, 0, 3, 24 },    { CLATTN_NVFP4_GGML, CLATTN_MXFP4_GGML, 0, 0, 0, 0 },
    { CLATTN_INT4, CLATTN_INT4, 1, 0, 3, 24 },    { CLATTN_U8, CLATTN_U4, 1, 0, 3, 24 },
    { CLATTN_NVFP4, CLATTN_MXFP4, 1, 16, 1, 32 }, { CLATTN_MXFP8, CLATTN_U8, 1, 32, 1, 16 },
};

static double code_of(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t code = index[1] * 31 + index[2] * 7 + index[3] * 13;
    (void)random;
    const clattn_type type = *(const clattn_type *)context;
    return (double)(type == CLATTN_INT4 ? code % 16 - 8 : type_has_zero_points(type) ? code % 256 : code % 201 - 100);
}

static double scale_of(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)context;
    return 0.01 + 0.003 * (double)((index[1] + 5 * index[2] + 3 * index[3]) % 7);
}

static double zero_of(struct random *random, const int64_t index[4], const void *context)
{
    return 300 * scale_of(random, index, context);
}

static void build_coded(const struct exact *e, int64_t query_len, int64_t key_len, const struct coding *coding,
                        struct test_call *coded)
{
    clattn_problem p = exact_problem(e, 1, HEADS, KV_HEADS, query_len, key_len, HEAD_DIM, HEAD_DIM_V);
    const int is_scaled = type_takes_scales(coding->key_type);
    p.features = CLATTN_WITH_LSE | (is_scaled ? CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES : 0u);
    p.key_type = coding->key_type;
    p.value_type = coding->value_type;
    p.key_scale_rows = coding->key_scale_rows;
    p.key_scale_columns = coding->key_scale_columns;
    p.value_scale_rows = coding->value_scale_rows;
    p.value_scale_columns = coding->value_scale_columns;
    exact_build(coded, &p, 0);
    if (is_scaled) {
        test_call_fill(coded, TENSOR_KEY, NULL, code_of, &coding->key_type);
        test_call_fill(coded, TENSOR_VALUE, NULL, code_of, &coding->value_type);
        test_call_fill(coded, TENSOR_KEY_SCALES, NULL, scale_of, NULL);
        test_call_fill(coded, TENSOR_VALUE_SCALES, NULL, scale_of, NULL);
        for (enum tensor_id id = TENSOR_KEY_ZERO_POINTS; id <= TENSOR_VALUE_TENSOR_SCALE; ++id) {
            if (test_call_has(coded, id)) {
                test_call_fill(coded, id, NULL, id < TENSOR_KEY_TENSOR_SCALE ? zero_of : scale_of, NULL);
            }
        }
    }
}

/* What an element of the keys or values stands for. */
static double value_of(const struct test_call *coded, enum tensor_id id, const int64_t at[4])
{
    const clattn_problem *p = &coded->problem;
    const int is_key = id == TENSOR_KEY;
    const int64_t rows = is_key ? p->key_scale_rows : p->value_scale_rows;
    const int64_t columns = is_key ? p->key_scale_columns : p->value_scale_columns;
    const double value = test_call_get(coded, id, at[0], at[1], at[2], at[3]);
    if (!type_takes_scales(is_key ? p->key_type : p->value_type)) {
        return value;
    }
    const clattn_type type = is_key ? p->key_type : p->value_type;
    const int64_t i = rows ? at[2] / rows : 0, group = columns ? at[3] / columns : 0;
    struct code_scale by = { 0, 0 };
    by.scale = (float)test_call_get(coded, is_key ? TENSOR_KEY_SCALES : TENSOR_VALUE_SCALES, at[0], at[1], i, group);
    if (type_has_tensor_scale(type)) {
        by.scale *=
            (float)test_call_get(coded, is_key ? TENSOR_KEY_TENSOR_SCALE : TENSOR_VALUE_TENSOR_SCALE, 0, 0, 0, 0);
    }
    if (type_has_zero_points(type)) {
        by.zero_point = (float)test_call_get(coded, is_key ? TENSOR_KEY_ZERO_POINTS : TENSOR_VALUE_ZERO_POINTS, at[0],
                                             at[1], i, group);
    }
    return type_scaled(value, by);
}

static void copy_values(struct test_call *plain, const struct test_call *coded, enum tensor_id id)
{
    int64_t n[4];
    test_call_shape(coded, id, n);
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; ++i) {
        const int64_t at[4] = { i / n[3] / n[2] / n[1], i / n[3] / n[2] % n[1], i / n[3] % n[2], i % n[3] };
        test_call_set(plain, id, at[0], at[1], at[2], at[3], value_of(coded, id, at));
    }
}

static void build_plain(const struct test_call *coded, struct test_call *plain)
{
    clattn_problem p = coded->problem;
    p.features = CLATTN_WITH_LSE;
    p.key_type = p.value_type = CLATTN_FLOAT32;
    p.key_scale_rows = p.key_scale_columns = p.value_scale_rows = p.value_scale_columns = 0;
    exact_build(plain, &p, 0);
    exact_copy_entry(plain, 0, coded, 0, TENSOR_QUERY);
    copy_values(plain, coded, TENSOR_KEY);
    copy_values(plain, coded, TENSOR_VALUE);
}

int codes_are_their_values(struct exact *e, int64_t query_len, int64_t key_len)
{
    int status = 0;
    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]) && status == 0; ++i) {
        struct test_call coded, plain;
        build_coded(e, query_len, key_len, &codings[i], &coded);
        build_plain(&coded, &plain);
        status = exact_run(e, &coded) || exact_run(e, &plain) || exact_same_entry(e, &coded, 0, &plain, 0) ? -1 : 0;
        test_call_free(&coded);
        test_call_free(&plain);
    }
    return status;
}
