/* Pools of several buffers: what is asked for, refused and computed, without a device. */
#include "operation/pools.h"

#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "suite.h"
#include "support/pooled_keys.h"

#define PAGES 7
#define PAGE_SIZE 3

static double any_value(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    (void)context;
    return random_normal(random);
}

static double some_page(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)context;
    return (double)((index[0] * 3 + index[3] * 2 + 1) % PAGES);
}

static double length(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)context;
    return (double)(8 - index[3]);
}

/* Two sequences of up to 8 keys in a pool of 7 pages; int8 keys have scales, one tensor for all pages. */
static void build(struct test_call *test, clattn_type key_type)
{
    struct random random = random_start(5, 0);
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.batch = 2;
    p.query_heads = p.kv_heads = 2;
    p.query_len = 3;
    p.key_len = 8;
    p.head_dim = 4;
    p.features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_LSE;
    p.page_size = PAGE_SIZE;
    p.pages = PAGES;
    p.key_type = key_type;
    p.features |= key_type == CLATTN_INT8 ? (uint32_t)CLATTN_WITH_KEY_SCALES : 0;
    p.key_scale_rows = key_type == CLATTN_INT8;
    test_call_start(test, &p);
    test_call_place_all(test);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        test_call_fill(test, (enum tensor_id)id, &random, any_value, NULL);
    }
    if (test_call_has(test, TENSOR_KEY_SCALES)) {
        test_call_fill(test, TENSOR_KEY_SCALES, &random, any_value, NULL);
    }
    test_call_fill(test, TENSOR_KEY_LENGTHS, NULL, length, NULL);
    test_call_fill(test, TENSOR_PAGE_TABLE, NULL, some_page, NULL);
}

/* The call that build() makes, its pool in buffers of so many pages. */
static void build_cut(struct test_call *test, int64_t pool_pages, struct pooled_call *cut)
{
    build(test, CLATTN_FLOAT32);
    test->pool_pages = pool_pages;
    pooled_call_cut(test, cut);
}

static void free_cut(struct test_call *test, struct pooled_call *cut)
{
    pooled_call_free(cut);
    test_call_free(test);
}

START_TEST(test_the_reference_finds_every_page)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_INT8 };
    for (int i = 0; i < 2; ++i) {
        struct test_call test;
        build(&test, types[i]);
        ck_assert_int_eq(clattn_reference_forward(&test.problem, &test.values, &test.tensors), CLATTN_OK);
        const uint64_t one_buffer = test_call_output_hash(&test);
        for (test.pool_pages = 2; test.pool_pages <= PAGES + 1; ++test.pool_pages) {
            struct pooled_call cut;
            pooled_call_cut(&test, &cut);
            test_call_reset_outputs(&test);
            const clattn_status status = clattn_reference_forward(&cut.problem, &test.values, &cut.tensors);
            ck_assert_msg(status == CLATTN_OK, "%d: %s", (int)test.pool_pages, clattn_last_error());
            ck_assert_uint_eq(test_call_output_hash(&test), one_buffer);
            pooled_call_free(&cut);
        }
        test_call_free(&test);
    }
}
END_TEST

static void ck_says(clattn_status got, clattn_status status, const char *says)
{
    ck_assert_msg(got == status && strstr(clattn_last_error(), says), "%d, \"%s\", not \"%s\"", (int)got,
                  clattn_last_error(), says);
}

START_TEST(test_what_is_refused)
{
    struct test_call test;
    struct pooled_call cut;
    build_cut(&test, 3, &cut);
#define REFUSED(status, says, change)                                                                                  \
    {                                                                                                                  \
        clattn_problem p = cut.problem;                                                                                \
        clattn_host_tensors t = cut.tensors;                                                                           \
        change;                                                                                                        \
        ck_says(clattn_reference_forward(&p, &test.values, &t), status, says);                                         \
    }
    REFUSED(CLATTN_INVALID_SHAPE, "pool_pages 1: 7 pages would need 7 buffers", p.pool_pages = 1);
    REFUSED(CLATTN_INVALID_SHAPE, "pool_pages -1: must be >= 0", p.pool_pages = -1);
    REFUSED(CLATTN_INVALID_ARGUMENT, "key_pools[1]: must be given", t.key_pools[1].data = NULL);
    REFUSED(CLATTN_INVALID_ARGUMENT, "value_pools[0]: must be given", t.value_pools[0].data = NULL);
    REFUSED(CLATTN_INVALID_ARGUMENT, "key_pools[2]: was given", t.key_pools[2] = t.key_pools[1]);
    REFUSED(CLATTN_INVALID_ARGUMENT, "key_pools[0]: was given", p.pool_pages = 0);
    REFUSED(CLATTN_INVALID_ARGUMENT, "key_pools[1]: was given", p.pool_pages = 4);
    REFUSED(CLATTN_INVALID_ARGUMENT, "key_pools[1].stride[2] 5: must be that of key, 4", t.key_pools[1].stride[2] = 5);
    REFUSED(CLATTN_INVALID_ARGUMENT, "value_pools[0].stride[3] 2: must be 1", t.value_pools[0].stride[3] = 2);
    REFUSED(CLATTN_INVALID_ARGUMENT, "key_pools[0].offset -1: must be >= 0", t.key_pools[0].offset = -1);
    REFUSED(CLATTN_INVALID_SHAPE, "value_pools[1].offset", t.value_pools[1].offset = (int64_t)1 << 41);
    free_cut(&test, &cut);
}
END_TEST

/* What the table says that is no page of any buffer, the calls on host memory refuse; -1 is a hole. */
START_TEST(test_pages_behind_the_last_buffer)
{
    struct test_call test;
    struct pooled_call cut;
    build_cut(&test, 4, &cut);
    test_call_set_page(&test, 0, 0, PAGES);
    struct problem problem;
    struct call call;
    ck_assert_int_eq(problem_init(&problem, &cut.problem), CLATTN_OK);
    ck_assert_int_eq(call_from_host(&problem, &test.values, &cut.tensors, &call), CLATTN_OK);
    ck_says(any_call_check_values(&problem.any, &call.operands), CLATTN_INVALID_ARGUMENT, "page_table[0, 0] 7");
    test_call_set_page(&test, 0, 0, -1);
    ck_assert_int_eq(any_call_check_values(&problem.any, &call.operands), CLATTN_OK);
    free_cut(&test, &cut);
}
END_TEST

/* Programs that were compiled before there were pools have shorter structs. */
START_TEST(test_older_callers)
{
    struct test_call test;
    struct pooled_call cut;
    build_cut(&test, 4, &cut);
    clattn_problem p = test.problem;
    clattn_host_tensors t = test.tensors;
    p.pool_pages = 99;
    memset(t.key_pools, 0x55, sizeof(t.key_pools) + sizeof(t.value_pools));
    p.struct_size = offsetof(clattn_problem, pool_pages);
    t.struct_size = offsetof(clattn_host_tensors, key_pools);
    ck_assert_int_eq(clattn_reference_forward(&p, &test.values, &t), CLATTN_OK);
    t = cut.tensors;
    t.struct_size = offsetof(clattn_host_tensors, key_pools);
    ck_says(clattn_reference_forward(&cut.problem, &test.values, &t), CLATTN_INVALID_ARGUMENT, "key_pools[0]: must");
    free_cut(&test, &cut);
}
END_TEST

START_TEST(test_gradients_know_none)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    float memory = 0;
    p.query_len = p.key_len = p.head_dim = 2;
    backward.forward = &p;
    backward.gradients = CLATTN_GRADIENT_QUERY;
    tensors.value_pools[2].data = &memory;
    ck_says(clattn_reference_backward(&backward, NULL, &tensors, &gradients), CLATTN_INVALID_ARGUMENT,
            "value_pools[2]: was given");
    struct test_call test;
    build(&test, CLATTN_FLOAT32);
    test.problem.pool_pages = 4;
    backward.forward = &test.problem;
    ck_says(clattn_reference_backward(&backward, NULL, &tensors, &gradients), CLATTN_UNSUPPORTED, "pools");
    test_call_free(&test);
}
END_TEST

/* Offsets go to kernels in two parts, those of each further buffer by themselves. */
START_TEST(test_shifts)
{
    static const int64_t shifts[] = { 0, 1, -1, INT32_MAX, INT32_MIN, (int64_t)3 << 33, -((int64_t)1 << 38) - 5 };
    const size_t count = sizeof(shifts) / sizeof(shifts[0]);
    const int64_t first = (int64_t)1 << 39;
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.pages = 4;
    p.pool_pages = 1;
    for (size_t i = 0; i < count; ++i) {
        struct operands operands = { 0 };
        clattn_pools pools;
        operands.tensor[TENSOR_KEY].offset = operands.tensor[TENSOR_VALUE].offset = first;
        for (size_t n = 0; n < 3; ++n) {
            operands.tensor[(size_t)TENSOR_KEY_POOL_1 + n].offset = first + shifts[(i + n) % count];
            operands.tensor[(size_t)TENSOR_VALUE_POOL_1 + n].offset = first - shifts[(i + n) % count];
        }
        pools_fill(&p, &operands, &pools);
        for (size_t n = 0; n < 3; ++n) {
            const int64_t shift = shifts[(i + n) % count];
            ck_assert_int_eq(pools.key_shift_high[n] * ((int64_t)1 << 32) + pools.key_shift[n], shift);
            ck_assert_int_eq(pools.value_shift_high[n] * ((int64_t)1 << 32) + pools.value_shift[n], -shift);
        }
    }
}
END_TEST

SUITE("pools", test_the_reference_finds_every_page, test_what_is_refused, test_pages_behind_the_last_buffer,
      test_older_callers, test_gradients_know_none, test_shifts)
