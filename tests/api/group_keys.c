/* clattn_group.h: random calls whose keys are divided, and those that go in slices because a device gives out no
 * buffer as large, are within the bound of one call; sums are the same bits each time. The contexts are on one device,
 * by plain. */
#include <math.h>
#include <stdlib.h>

#include "contexts_of_group.h"
#include "program/context.h"
#include "support/gradient_call.h"
#include "support/random_call.h"
#include "support/tolerance.h"

#define SEED 11

/* The largest buffer that was made since it was 0, and how many. */
static size_t largest_bytes;
static int buffers;
cl_mem __real_clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes, void *host, cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes, void *host, cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes, void *host, cl_int *code)
{
    largest_bytes = bytes > largest_bytes ? bytes : largest_bytes;
    ++buffers;
    return __real_clCreateBuffer(cl, flags, bytes, host, code);
}

static int calls(void)
{
    return calls_wanted(getenv("CLATTN_TEST_LONG") ? 200 : 12);
}

static void make_call(int index, struct test_call *test)
{
    const struct random_call_options options = { .work_limit = 20000, .calls_a_program = 4, .mixed = index / 4 % 2 };
    enum value_family family;
    EXPECT_OK(random_call_create(test, SEED, (uint64_t)index, &options, &family));
    test->problem.strategy = "plain";
}

static void expect_within_bound(const struct test_call *test, const struct expected *expected, int index)
{
    struct verdict verdict;
    tolerance_check(test, expected, &verdict);
    ck_assert_msg(verdict.wrong == 0, "%d: %lld elements are wrong: %s", index, (long long)verdict.wrong,
                  verdict.first);
}

/* ---- keys of several contexts ------------------------------------------------------------------ */

static int divide_keys(struct test_call *test, int index)
{
    struct random random = random_start(SEED, (uint64_t)index);
    struct group_division division = { .axis = GROUP_KEYS };
    struct group_call whole = { 0 };
    EXPECT_OK(group_call_read(&test->problem, NULL, &test->values, &test->tensors, NULL, &whole));
    const int64_t pieces = group_pieces(&whole, GROUP_KEYS);
    if (pieces <= 1) {
        return 0;
    }
    struct expected expected;
    uint64_t hash = 0;
    EXPECT_OK(test_call_validate(test));
    EXPECT_OK(expected_create(&expected, test));
    divide_by_chance(&random, pieces, &division);
    for (int turn = 0; turn < 2; ++turn) {
        test_call_reset_outputs(test);
        ck_assert_msg(group_run_divided(group, &division, &whole) == CLATTN_OK, "%d: %s", index, clattn_last_error());
        expect_within_bound(test, &expected, index);
        ck_assert_msg(turn == 0 || hash == test_call_output_hash(test), "%d: other bits the second time", index);
        hash = test_call_output_hash(test);
    }
    expected_free(&expected);
    return 1;
}

START_TEST(test_keys_are_divided)
{
    int divided = 0;
    for (int n = 0; n < calls(); ++n) {
        struct test_call test;
        make_call(n, &test);
        divided += divide_keys(&test, n);
        test_call_free(&test);
    }
    ck_assert_int_gt(divided, calls() / 8);
}
END_TEST

/* Gradients of a part begin with the whole's lse in float32, whose rounding weighs where logits are large
 * (docs/ranks.md): so only calls of small ones are held to the bound, and of these such whose rows see keys. */
static int lse_is_small(const struct test_call *test)
{
    int64_t n[4], seeing = 0;
    test_call_shape(test, TENSOR_LSE, n);
    const int64_t planes = n[0] * n[1], rows = planes * n[2];
    for (int64_t at = 0; at < rows; ++at) {
        const double lse = test_call_get(test, TENSOR_LSE, at % planes / n[1], at % n[1], at / planes, 0);
        if (!(fabs(lse) < 16) && lse != (double)-INFINITY) {
            return 0;
        }
        seeing += lse != (double)-INFINITY;
    }
    return 2 * seeing > rows;
}

static int divide_gradients(struct gradient_call *g, int index)
{
    struct random random = random_start(SEED, (uint64_t)index);
    struct group_division division = { .axis = GROUP_KEYS };
    struct group_call whole = { 0 };
    EXPECT_OK(group_call_read(&g->test.problem, &g->problem, &g->test.values, &g->test.tensors, &g->gradients, &whole));
    const int64_t pieces = group_pieces(&whole, GROUP_KEYS);
    if (pieces <= 1 || !lse_is_small(&g->test)) {
        return 0;
    }
    struct gradient_expected expected;
    struct gradient_verdict verdict;
    EXPECT_OK(gradient_call_expect(g, &expected));
    divide_by_chance(&random, pieces, &division);
    gradient_call_keep(g);
    ck_assert_msg(group_run_divided(group, &division, &whole) == CLATTN_OK, "%d: %s", index, clattn_last_error());
    gradient_call_judge(g, &expected, &verdict);
    ck_assert_msg(verdict.wrong == 0, "%d: %lld elements are wrong: %s", index, (long long)verdict.wrong,
                  verdict.first);
    gradient_expected_free(&expected);
    return 1;
}

/* Those that keys apart have: the others are sums over keys. */
static void leave_sums(struct gradient_call *g)
{
    const clattn_host_tensor none = CLATTN_TENSOR_NONE;
    g->problem.gradients &= CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    g->problem.accumulate &= g->problem.gradients & ~(uint32_t)CLATTN_GRADIENT_QUERY;
    g->gradients.dbias = g->gradients.dslopes = g->gradients.dsinks = g->gradients.dscale = none;
}

START_TEST(test_gradients_of_divided_keys)
{
    int divided = 0;
    for (int n = 0; n < 10 * calls() && divided < calls() / 4; ++n) {
        const struct random_call_options options = {
            .type = CLATTN_FLOAT32, .work_limit = 20000, .calls_a_program = 4, .gradients = 1
        };
        struct gradient_call g = { 0 };
        struct random random = random_start(SEED + 1, (uint64_t)n);
        enum value_family family;
        EXPECT_OK(random_call_create(&g.test, SEED, (uint64_t)n, &options, &family));
        EXPECT_OK(gradient_call_random(&g, &random));
        leave_sums(&g);
        g.problem.strategy = g.test.problem.strategy = "plain";
        divided += g.problem.gradients & CLATTN_GRADIENT_QUERY ? divide_gradients(&g, n) : 0;
        gradient_call_free(&g);
    }
    ck_assert_int_eq(divided, calls() / 4);
}
END_TEST

/* ---- slices ------------------------------------------------------------------------------------ */

/* With buffers of a third of the largest tensor at most; whether all were. */
static int run_in_slices(struct test_call *test, int index)
{
    struct group_call whole = { 0 };
    struct expected expected;
    EXPECT_OK(group_call_read(&test->problem, NULL, &test->values, &test->tensors, NULL, &whole));
    EXPECT_OK(test_call_validate(test));
    EXPECT_OK(expected_create(&expected, test));
    const uint64_t had = contexts[0]->device.allocation_bytes;
    largest_bytes = 0;
    test_call_reset_outputs(test);
    EXPECT_OK(group_call_run(contexts[0], &whole));
    const size_t limit = largest_bytes / 3;
    contexts[0]->device.allocation_bytes = limit > 0 ? limit : 1;
    largest_bytes = 0;
    test_call_reset_outputs(test);
    const clattn_status status = group_call_run(contexts[0], &whole);
    contexts[0]->device.allocation_bytes = had;
    ck_assert_msg(status == CLATTN_OK, "%d: %s", index, clattn_last_error());
    expect_within_bound(test, &expected, index);
    expected_free(&expected);
    return largest_bytes <= limit;
}

START_TEST(test_slices)
{
    int sliced = 0;
    for (int n = 0; n < calls(); ++n) {
        struct test_call test;
        make_call(n, &test);
        sliced += run_in_slices(&test, n);
        test_call_free(&test);
    }
    ck_assert_int_gt(sliced, calls() / 8);
}
END_TEST

/* Memory for half of a call that is nearly all keys and values: three slices of keys, not one of each row, which would
 * be hardly smaller. */
START_TEST(test_slices_of_what_is_large)
{
    enum { ROWS = 64, KEYS = 512, COLUMNS = 16, MEMORY = 36000 };
    static float query[ROWS * COLUMNS], key[KEYS * COLUMNS], value[KEYS * COLUMNS], out[ROWS * COLUMNS];
    struct group_call whole = { .operation = &operation_forward };
    const clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_call call = CLATTN_CALL_INIT;
    const clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    const uint64_t had = contexts[0]->device.global_bytes;
    for (int n = 0; n < KEYS * COLUMNS; ++n) {
        value[n] = 1;
    }
    whole.problem = problem;
    whole.call = call;
    whole.tensors = tensors;
    whole.problem.query_len = ROWS;
    whole.problem.key_len = KEYS;
    whole.problem.head_dim = COLUMNS;
    whole.problem.strategy = "plain";
    whole.tensors.query = clattn_host_tensor_bhsd(query, 1, ROWS, COLUMNS);
    whole.tensors.key = clattn_host_tensor_bhsd(key, 1, KEYS, COLUMNS);
    whole.tensors.value = clattn_host_tensor_bhsd(value, 1, KEYS, COLUMNS);
    whole.tensors.out = clattn_host_tensor_bhsd(out, 1, ROWS, COLUMNS);
    contexts[0]->device.global_bytes = MEMORY;
    buffers = 0;
    const clattn_status status = group_call_run(contexts[0], &whole);
    contexts[0]->device.global_bytes = had;
    ck_assert_msg(status == CLATTN_OK, "%s", clattn_last_error());
    ck_assert_int_le(buffers, 3 * FORWARD_TENSOR_COUNT);
    for (int n = 0; n < ROWS * COLUMNS; ++n) {
        ck_assert_float_eq_tol(out[n], 1.0f, 1e-6f);
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_unchecked_fixture(tests, open_group, close_group);
    tcase_add_test(tests, test_keys_are_divided);
    tcase_add_test(tests, test_gradients_of_divided_keys);
    tcase_add_test(tests, test_slices);
    tcase_add_test(tests, test_slices_of_what_is_large);
}

int main(void)
{
    return api_main("group_keys", add);
}
