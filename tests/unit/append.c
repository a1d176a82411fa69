/* Append without a device: where rows go, by hand, and what is refused. */
#include <fenv.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "clattn_cache.h"
#include "operation/append.h"
#include "suite.h"

#define EXPECT_OK(call) ck_assert_msg((call) == CLATTN_OK, "%s: %s", #call, clattn_last_error())

static void expect_error(clattn_status status, clattn_status expected, const char *text)
{
    ck_assert_msg(status == expected && strstr(clattn_last_error(), text), "%s, \"%s\"; expected %s, \"%s\"",
                  clattn_status_name(status), clattn_last_error(), clattn_status_name(expected), text);
}

#define ROWS 3
#define CAPACITY 6

/* Three rows of one column, 1, 2 and 3, to a cache of six zeros. */
struct scene {
    clattn_append_problem problem;
    clattn_append_host_tensors tensors;
    float key[ROWS], key_cache[CAPACITY], value_cache[CAPACITY];
    int32_t starts[2], slots[ROWS], table[CAPACITY], page_starts[2], cu_query[2];
};

static void scene_begin(struct scene *s)
{
    const clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    const clattn_append_host_tensors tensors = CLATTN_APPEND_HOST_TENSORS_INIT;
    memset(s, 0, sizeof(*s));
    s->problem = problem;
    s->tensors = tensors;
    s->problem.query_len = ROWS;
    s->problem.head_dim = 1;
    s->problem.capacity = CAPACITY;
    s->problem.features = CLATTN_WITH_STARTS;
    for (int i = 0; i < ROWS; ++i) {
        s->key[i] = (float)(i + 1);
    }
    s->tensors.key = s->tensors.value = clattn_host_tensor_bhsd(s->key, 1, ROWS, 1);
    s->tensors.key_cache = clattn_host_tensor_bhsd(s->key_cache, 1, CAPACITY, 1);
    s->tensors.value_cache = clattn_host_tensor_bhsd(s->value_cache, 1, CAPACITY, 1);
    s->tensors.starts.data = s->starts;
}

/* Pages of two rows, in a pool of three, found by one table or by page starts. */
static void scene_pages(struct scene *s, int by_starts)
{
    static const int32_t table[3] = { 2, -1, 0 };
    scene_begin(s);
    s->problem.page_size = 2;
    s->problem.pages = 3;
    s->problem.features |= CLATTN_WITH_PAGES | (by_starts ? CLATTN_WITH_PAGE_STARTS : 0u);
    s->tensors.key_cache = clattn_host_tensor_bhsd(s->key_cache, 1, 2, 1);
    s->tensors.value_cache = clattn_host_tensor_bhsd(s->value_cache, 1, 2, 1);
    memcpy(s->table, table, sizeof(table));
    s->tensors.page_table.data = s->table;
    s->tensors.page_table.stride[3] = 1;
    if (by_starts) {
        s->page_starts[1] = 3;
        s->tensors.page_starts.data = s->page_starts;
    }
}

static void scene_slots(struct scene *s)
{
    scene_begin(s);
    s->problem.features = CLATTN_WITH_SLOTS;
    s->tensors.starts.data = NULL;
    s->tensors.slots.data = s->slots;
    s->tensors.slots.stride[2] = 1;
}

static void expect_cache(struct scene *s, const char *digits)
{
    char got[CAPACITY + 1] = "";
    EXPECT_OK(clattn_reference_append(&s->problem, NULL, &s->tensors));
    for (int i = 0; i < CAPACITY; ++i) {
        ck_assert_float_eq(s->key_cache[i], s->value_cache[i]);
        got[i] = (char)('0' + (int)s->key_cache[i]);
    }
    ck_assert_str_eq(got, digits);
}

START_TEST(test_starts)
{
    struct scene s;
    scene_begin(&s);
    expect_cache(&s, "123000");
    scene_begin(&s);
    s.starts[0] = 3;
    expect_cache(&s, "000123");
}
END_TEST

START_TEST(test_rings)
{
    struct scene s;
    scene_begin(&s);
    s.problem.ring = 6;
    s.starts[0] = 5; /* keys 5, 6, 7 */
    expect_cache(&s, "230001");
    scene_begin(&s);
    s.problem.ring = 5;
    s.problem.pinned = 2; /* keys 0 and 1 stay, 4 is in row 4, 5 in 2, 6 in 3 */
    s.starts[0] = 4;
    expect_cache(&s, "002310");
    scene_begin(&s);
    s.problem.ring = 2; /* of keys 0, 1, 2 the last two */
    expect_cache(&s, "320000");
    scene_begin(&s);
    s.problem.ring = 2;
    s.problem.pinned = 1;
    expect_cache(&s, "130000");
    scene_begin(&s);
    s.problem.ring = 4;
    s.starts[0] = INT32_MAX; /* 2147483647 % 4 is 3 */
    expect_cache(&s, "230100");
}
END_TEST

START_TEST(test_pages)
{
    struct scene s;
    for (int by_starts = 0; by_starts < 2; ++by_starts) {
        scene_pages(&s, by_starts); /* rows 0, 1 in page 2, row 2 in a hole */
        expect_cache(&s, "000012");
        scene_pages(&s, by_starts);
        s.starts[0] = 3; /* a hole, then rows 0 and 1 of page 0 */
        expect_cache(&s, "230000");
    }
    scene_pages(&s, 0);
    s.table[1] = 1;
    s.problem.ring = 3; /* rows 2, 0, 1 */
    s.starts[0] = 2;
    expect_cache(&s, "001023");
}
END_TEST

START_TEST(test_slots)
{
    static const int32_t slots[ROWS] = { 4, -1, 0 };
    struct scene s;
    scene_slots(&s);
    memcpy(s.slots, slots, sizeof(slots));
    expect_cache(&s, "300010");
    scene_slots(&s); /* of a pool, rows before heads would be the same */
    memcpy(s.slots, slots, sizeof(slots));
    s.problem.page_size = 2;
    s.problem.pages = 3;
    s.problem.capacity = 0;
    s.tensors.key_cache.stride[0] = s.tensors.value_cache.stride[0] = 2;
    expect_cache(&s, "300010");
}
END_TEST

START_TEST(test_packed_rows)
{
    struct scene s;
    scene_begin(&s);
    s.problem.features |= CLATTN_WITH_VARLEN;
    s.problem.batch = 1;
    s.cu_query[1] = 2;
    s.tensors.cu_query.data = s.cu_query;
    expect_cache(&s, "120000");
}
END_TEST

START_TEST(test_refused_problems)
{
    struct scene s;
#define REFUSED(status, text, ...)                                                                                     \
    do {                                                                                                               \
        scene_begin(&s);                                                                                               \
        clattn_append_problem *p = &s.problem;                                                                         \
        __VA_ARGS__;                                                                                                   \
        (void)p;                                                                                                       \
        expect_error(clattn_reference_append(&s.problem, NULL, &s.tensors), status, text);                             \
    } while (0)
#define ARGUMENT CLATTN_INVALID_ARGUMENT
#define SHAPE CLATTN_INVALID_SHAPE
    REFUSED(ARGUMENT, "features 0x0: nothing says where new rows go", p->features = 0);
    REFUSED(ARGUMENT, "append does not know bits 0x4", p->features |= CLATTN_WITH_SLOPES);
    REFUSED(ARGUMENT, "CLATTN_WITH_STARTS would be ignored", p->features |= CLATTN_WITH_SLOTS);
    REFUSED(ARGUMENT, "type 5", p->type = CLATTN_INT8);
    REFUSED(ARGUMENT, "key_type 99: is not a clattn_type", p->key_type = (clattn_type)99);
    REFUSED(ARGUMENT, "value_type float64: float64 goes with no other", p->value_type = CLATTN_FLOAT64);
    REFUSED(SHAPE, "head_dim 1: must be a multiple of 32, a block of key_type q8_0", p->key_type = CLATTN_Q8_0);
    REFUSED(SHAPE, "head_dim_v 48: must be a multiple of 32", p->value_type = CLATTN_Q4_0; p->head_dim_v = 48);
    REFUSED(ARGUMENT,
            "key scales are for int8, int4, e4m3, e5m2, u8, u4, mxfp8, mxfp4 and nvfp4, and key_type is float32",
            p->features |= CLATTN_WITH_KEY_SCALES);
    REFUSED(ARGUMENT, "value_scale_rows 2", p->value_scale_rows = 2);
    REFUSED(SHAPE, "kv_heads -1", p->kv_heads = -1);
    REFUSED(SHAPE, "head_dim 0", p->head_dim = 0);
    REFUSED(SHAPE, "capacity 2147483648", p->capacity = (int64_t)1 << 31);
    REFUSED(SHAPE, "query_heads + kv_heads", p->query_heads = p->kv_heads = INT32_MAX);
    REFUSED(ARGUMENT, "page_size 4: needs CLATTN_WITH_PAGES or CLATTN_WITH_SLOTS", p->page_size = 4);
    REFUSED(ARGUMENT, "page_size 0, pages 0, pool_pages 0: pages and", p->features |= CLATTN_WITH_PAGES);
    REFUSED(ARGUMENT, "CLATTN_WITH_PAGE_STARTS needs CLATTN_WITH_PAGES", p->features |= CLATTN_WITH_PAGE_STARTS);
    REFUSED(ARGUMENT, "with CLATTN_WITH_SLOTS no page table is read",
            p->features = CLATTN_WITH_SLOTS | CLATTN_WITH_PAGES;
            p->page_size = 2);
    REFUSED(ARGUMENT, "capacity 6: slots of a pool are bounded by its pages", p->features = CLATTN_WITH_SLOTS;
            p->page_size = 2);
    REFUSED(ARGUMENT, "pinned 1: needs a ring", p->pinned = 1);
    REFUSED(SHAPE, "ring 2: must be more than pinned 2 and at most capacity 6", p->ring = p->pinned = 2);
    REFUSED(SHAPE, "ring 7: must be more than pinned 0 and at most capacity 6", p->ring = 7);
    REFUSED(ARGUMENT, "ring 2: slots say themselves", p->features = CLATTN_WITH_SLOTS; p->ring = 2);
    REFUSED(ARGUMENT, "without CLATTN_WITH_ROTARY nothing is turned", p->pairs = CLATTN_PAIRS_HALVES);
    REFUSED(ARGUMENT, "without CLATTN_WITH_ROTARY nothing is turned", p->features |= CLATTN_WITH_POSITIONS);
    REFUSED(ARGUMENT, "pairs 0: must be CLATTN_PAIRS_INTERLEAVED", p->features |= CLATTN_WITH_ROTARY; p->head_dim = 2);
    REFUSED(ARGUMENT, "CLATTN_WITH_NORM_WEIGHTS without a norm that has weights",
            p->features |= CLATTN_WITH_VALUE_NORM | CLATTN_WITH_NORM_WEIGHTS;
            p->norm_epsilon = 1e-6);
    REFUSED(ARGUMENT, "norm_epsilon 1e-06: would be ignored", p->norm_epsilon = 1e-6);
    REFUSED(ARGUMENT, "norm_epsilon 0: must be", p->features |= CLATTN_WITH_KEY_NORM);
    REFUSED(ARGUMENT, "norm_epsilon nan: must be", p->features |= CLATTN_WITH_KEY_NORM; p->norm_epsilon = NAN);
    REFUSED(ARGUMENT, "cannot be turned back", p->features |= CLATTN_WITH_KEY_NORM | CLATTN_WITH_ROTARY;
            p->norm_epsilon = 1; p->inverse = 1);
    REFUSED(ARGUMENT, "CLATTN_WITH_QUERY_NORM would be ignored", p->features |= CLATTN_WITH_QUERY_NORM;
            p->norm_epsilon = 1);
    REFUSED(ARGUMENT, "append does not know bits 0x200000", p->features |= CLATTN_WITH_NORM);
    REFUSED(ARGUMENT, "strategy \"\": is not the name of a strategy", p->strategy = "");
}
END_TEST

/* What ONNX Runtime refuses of lengths too: negative ones, and those that end beyond the cache. */
START_TEST(test_refused_values)
{
    struct scene s;
    REFUSED(ARGUMENT, "starts[0] -1: must be 0 to 3, so that its 3 new rows end within capacity 6", s.starts[0] = -1);
    REFUSED(ARGUMENT, "starts[0] 4: must be 0 to 3", s.starts[0] = 4);
    REFUSED(ARGUMENT, "starts[0] 2147483647: must be 0 to 3", s.starts[0] = INT32_MAX);
    REFUSED(ARGUMENT, "starts[0] -2147483648", s.starts[0] = INT32_MIN; p->ring = 4);
    REFUSED(ARGUMENT, "slots: row 1 of sequence 0 has slot 6, beyond the 6 rows", scene_slots(&s); s.slots[1] = 6);
    REFUSED(ARGUMENT, "page_table: page 0 of sequence 0 is 3; must be -1", scene_pages(&s, 0); s.table[0] = 3);
    REFUSED(ARGUMENT, "page_table: page 1 of sequence 0 is -2; must be -1", scene_pages(&s, 0); s.table[1] = -2);
    REFUSED(ARGUMENT, "page_starts[0] 0, and 1 after it: sequence 0 needs 2 pages for its 3 rows", scene_pages(&s, 1);
            s.page_starts[1] = 1);
    REFUSED(ARGUMENT, "page_starts[0] -1", scene_pages(&s, 1); s.page_starts[0] = -1);
    REFUSED(ARGUMENT, "cu_query[1] 4: gives sequence 0 4 rows", p->features |= CLATTN_WITH_VARLEN; s.cu_query[1] = 4;
            s.tensors.cu_query.data = s.cu_query);
    REFUSED(ARGUMENT, "cu_query[0] 1: must be 0", p->features |= CLATTN_WITH_VARLEN; s.cu_query[0] = s.cu_query[1] = 1;
            s.tensors.cu_query.data = s.cu_query);
    REFUSED(ARGUMENT, "starts: must be given", s.tensors.starts.data = NULL);
    REFUSED(ARGUMENT, "key_cache: must be given", s.tensors.key_cache.data = NULL);
    REFUSED(ARGUMENT, "query: was given", s.tensors.query = s.tensors.key);
    REFUSED(ARGUMENT, "key_cache.stride[2] 0: must not be 0", s.tensors.key_cache.stride[2] = 0);
    REFUSED(ARGUMENT, "key_cache: its memory is also key's", s.tensors.key_cache.data = s.key; s.problem.capacity = 3);
    REFUSED(ARGUMENT, "key_cache: its memory is also value_cache's", s.tensors.value_cache = s.tensors.key_cache);
    REFUSED(ARGUMENT, "tensors.struct_size 7", s.tensors.struct_size = 7);
}
END_TEST

/* Strides of block types count columns, in whole blocks. */
START_TEST(test_refused_blocks)
{
    static float key[32];
    static uint8_t cache[2][34 * 4];
    struct scene s;
#define BLOCKS                                                                                                         \
    p->key_type = p->value_type = CLATTN_Q8_0;                                                                         \
    p->query_len = 1;                                                                                                  \
    p->capacity = 2;                                                                                                   \
    p->head_dim = 32;                                                                                                  \
    s.tensors.key = s.tensors.value = clattn_host_tensor_bhsd(key, 1, 1, 32);                                          \
    s.tensors.key_cache = clattn_host_tensor_bhsd(cache[0], 1, 2, 32);                                                 \
    s.tensors.value_cache = clattn_host_tensor_bhsd(cache[1], 1, 2, 32)
    REFUSED(ARGUMENT, "key_cache.offset 16: must be a multiple of 32", BLOCKS; s.tensors.key_cache.offset = 16);
    REFUSED(ARGUMENT, "key_cache.stride[2] 34: must be a multiple of 32", BLOCKS; s.tensors.key_cache.stride[2] = 34);
    REFUSED(ARGUMENT, "value_cache.stride[3] 2", BLOCKS; s.problem.strided_columns = 1;
            s.tensors.value_cache.stride[3] = 2);
}
END_TEST

/* Codes and scales are those of rounding to nearest, whatever the caller's mode is. */
START_TEST(test_rounding_mode_of_the_caller)
{
    static const clattn_type types[] = { CLATTN_FLOAT16, CLATTN_BFLOAT16, CLATTN_INT8, CLATTN_E4M3, CLATTN_E5M2 };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        struct scene nearest, upward;
        scene_begin(&nearest);
        scene_begin(&upward);
        nearest.problem.key_type = nearest.problem.value_type = types[i];
        upward.problem = nearest.problem;
        for (int row = 0; row < ROWS; ++row) {
            nearest.key[row] = upward.key[row] = 1.0f / 3 + (float)row;
        }
        EXPECT_OK(clattn_reference_append(&nearest.problem, NULL, &nearest.tensors));
        fesetround(FE_UPWARD);
        const clattn_status status = clattn_reference_append(&upward.problem, NULL, &upward.tensors);
        const int mode = fegetround();
        fesetround(FE_TONEAREST);
        ck_assert_int_eq(status, CLATTN_OK);
        ck_assert_int_eq(mode, FE_UPWARD);
        ck_assert_mem_eq(nearest.key_cache, upward.key_cache, sizeof(nearest.key_cache));
        ck_assert_mem_eq(nearest.value_cache, upward.value_cache, sizeof(nearest.value_cache));
    }
}
END_TEST

/* Kept plans are found by it. A bit of each byte: but the size, the same of all, and what stands beside the strategy,
 * which is kept by its name. */
START_TEST(test_equality_sees_every_field)
{
    struct append_problem one, other;
    struct scene s;
    scene_begin(&s);
    EXPECT_OK(any_problem_init(&one.any, &operation_append, &s.problem));
    ck_assert_int_ne(problem_equal(&one.any, &one.any), 0);
    for (size_t at = offsetof(clattn_append_problem, type); at < sizeof(one.p); ++at) {
        if (at == offsetof(clattn_append_problem, strided_columns) + sizeof(one.p.strided_columns)) {
            at = offsetof(clattn_append_problem, strategy) + sizeof(one.p.strategy);
        }
        other = one;
        ((unsigned char *)&other.p)[at] ^= 1;
        ck_assert_msg(!problem_equal(&one.any, &other.any), "byte %zu of the problem was not seen", at);
    }
}
END_TEST

SUITE("append", test_starts, test_rings, test_pages, test_slots, test_packed_rows, test_refused_problems,
      test_refused_values, test_refused_blocks, test_equality_sees_every_field, test_rounding_mode_of_the_caller)
