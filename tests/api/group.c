/* clattn_group.h: random calls divided in every way have the bits of the whole, by plain, whose rows know nothing of
 * each other; what a group decides and tells; what is refused. The contexts are on one device. */
#include <stdlib.h>
#include <string.h>

#include "contexts_of_group.h"
#include "support/gradient_call.h"
#include "support/random_call.h"
#include "support/small_calls.h"

#define SEED 5

/* ---- forward ---------------------------------------------------------------------------------- */

static int divided[GROUP_AXES];

/* How a kind of call is spoilt, and what its outputs hash to. */
struct outputs {
    void *call;
    void (*reset)(void *call);
    uint64_t (*hash)(const void *call);
};

/* On each axis that the call has; its outputs are those of the whole. */
static void check_axes(const struct group_call *whole, const struct outputs *outputs, uint64_t index)
{
    struct random random = random_start(SEED, index);
    const uint64_t wanted = outputs->hash(outputs->call);
    for (int axis = 0; axis < GROUP_KEYS; ++axis) { /* tests/api/group_keys.c has those */
        struct group_division division = { .axis = (enum group_axis)axis };
        const int64_t pieces = group_pieces(whole, division.axis);
        if (pieces > 1) {
            divide_by_chance(&random, pieces, &division);
            outputs->reset(outputs->call);
            ck_assert_msg(group_run_divided(group, &division, whole) == CLATTN_OK, "%d, %s: %s", (int)index,
                          group_axis_names[axis], clattn_last_error());
            ck_assert_msg(outputs->hash(outputs->call) == wanted, "%d: other bits when %s are divided", (int)index,
                          group_axis_names[axis]);
            divided[axis]++;
        }
    }
}

static void reset_forward(void *test)
{
    test_call_reset_outputs(test);
}

static uint64_t hash_forward(const void *test)
{
    return test_call_output_hash(test);
}

static void check_forward(struct test_call *test, uint64_t index)
{
    const struct outputs outputs = { test, reset_forward, hash_forward };
    struct group_call whole = { 0 };
    test->problem.strategy = "plain";
    test_call_reset_outputs(test);
    ck_assert_msg(clattn_forward_host(context, &test->problem, &test->values, &test->tensors) == CLATTN_OK, "%d: %s",
                  (int)index, clattn_last_error());
    EXPECT_OK(group_call_read(&test->problem, NULL, &test->values, &test->tensors, NULL, &whole));
    check_axes(&whole, &outputs, index);
}

START_TEST(test_forward_has_the_bits_of_the_whole)
{
    memset(divided, 0, sizeof(divided));
    for (int n = 0; n < calls_wanted(64); ++n) {
        const struct random_call_options options = { .work_limit = 20000,
                                                     .calls_a_program = 4,
                                                     .codes = n % 3 == 2,
                                                     .mixed = n % 2,
                                                     .code = n % 10 == 9 ? "any" : NULL };
        struct test_call test;
        enum value_family family;
        EXPECT_OK(random_call_create(&test, SEED, (uint64_t)n, &options, &family));
        check_forward(&test, (uint64_t)n);
        test_call_free(&test);
    }
    for (int axis = 0; axis < GROUP_KEYS; ++axis) {
        ck_assert_msg(divided[axis] > calls_wanted(64) / 16, "%s were divided %d times", group_axis_names[axis],
                      divided[axis]);
    }
}
END_TEST

/* ---- gradients -------------------------------------------------------------------------------- */

static void reset_backward(void *g)
{
    gradient_call_keep(g);
}

static uint64_t hash_backward(const void *g)
{
    return gradient_call_hash(g);
}

static void check_backward(struct gradient_call *g, uint64_t index)
{
    const struct outputs outputs = { g, reset_backward, hash_backward };
    struct group_call whole = { 0 };
    g->problem.strategy = "plain";
    gradient_call_keep(g);
    ck_assert_msg(gradient_call_run(context, g, 1) == CLATTN_OK, "%d: %s", (int)index, clattn_last_error());
    EXPECT_OK(group_call_read(&g->test.problem, &g->problem, &g->test.values, &g->test.tensors, &g->gradients, &whole));
    check_axes(&whole, &outputs, index);
}

START_TEST(test_gradients_have_the_bits_of_the_whole)
{
    memset(divided, 0, sizeof(divided));
    for (int n = 0; n < calls_wanted(64) / 4; ++n) {
        const struct random_call_options options = { .work_limit = 20000, .gradients = 1 };
        struct gradient_call g = { 0 };
        struct random random = random_start(SEED + 1, (uint64_t)n);
        enum value_family family;
        EXPECT_OK(random_call_create(&g.test, SEED, (uint64_t)n, &options, &family));
        ck_assert_msg(gradient_call_random(&g, &random) == CLATTN_OK, "%d: %s", n, clattn_last_error());
        check_backward(&g, (uint64_t)n);
        gradient_call_free(&g);
    }
    ck_assert_int_gt(divided[GROUP_BATCH], 0);
    ck_assert_int_gt(divided[GROUP_HEADS], 0);
}
END_TEST

/* ---- what a group decides --------------------------------------------------------------------- */

START_TEST(test_a_division_is_kept)
{
    float query[2 * 3 * 40 * 8], out[2][2 * 3 * 40 * 8];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    char *text;
    for (size_t i = 0; i < sizeof(query) / sizeof(*query); ++i) {
        query[i] = (float)(i * 37 % 101) / 50 - 1;
    }
    problem.batch = 2;
    problem.query_heads = problem.kv_heads = 3;
    problem.query_len = problem.key_len = 40;
    problem.head_dim = 8;
    tensors.query = tensors.key = tensors.value = clattn_host_tensor_bhsd(query, 3, 40, 8);
    for (int turn = 0; turn < 2; ++turn) {
        tensors.out = clattn_host_tensor_bhsd(out[turn], 3, 40, 8);
        EXPECT_OK(clattn_group_forward_host(group, &problem, NULL, &tensors));
    }
    ck_assert_mem_eq(out[0], out[1], sizeof(out[0]));
    EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
    for (size_t i = 0; i < sizeof(query) / sizeof(*query); ++i) {
        ck_assert_msg(out[0][i] - out[1][i] < 1e-6f && out[1][i] - out[0][i] < 1e-6f, "element %zu", i);
    }
    EXPECT_OK(clattn_group_explain(group, &text));
    const char *found = strstr(text, "forward: batch 2");
    ck_assert_msg(found && !strstr(found + 1, "forward: batch 2") && strstr(text, "device 2: ") &&
                      strstr(text, "; measured: together "),
                  "%s", text);
    clattn_free(text);
}
END_TEST

/* The division of a problem serves calls of more rows than the first had, and of outputs that cannot be divided so. */
START_TEST(test_other_calls_of_a_problem)
{
    static const int64_t of_ten[CONTEXTS + 1] = { 0, 4, 4, 10 }, of_two[CONTEXTS + 1] = { 0, 1, 2, 2 };
    float query[2 * 25 * 4], out[2][2 * 25 * 4], dslopes[2] = { 0, 0 }, slopes[2] = { 0.5f, 0.25f }, lse[2 * 25];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    struct group_call whole = { 0 };
    struct group_division division = { .axis = GROUP_ROWS, .pieces = 10 };
    for (size_t i = 0; i < sizeof(query) / sizeof(*query); ++i) {
        query[i] = (float)(i * 37 % 101) / 50 - 1;
    }
    problem.batch = 2;
    problem.query_len = problem.key_len = 25;
    problem.head_dim = 4;
    problem.alignment = CLATTN_ALIGN_TOP_LEFT;
    problem.features = CLATTN_WITH_LSE | CLATTN_WITH_SLOPES;
    problem.strategy = "plain";
    tensors.query = tensors.key = tensors.value = clattn_host_tensor_bhsd(query, 1, 25, 4);
    tensors.lse = clattn_host_tensor_bhsd(lse, 1, 25, 1);
    tensors.slopes = (clattn_host_tensor){ slopes, 0, { 1, 1, 0, 0 } };
    tensors.out = clattn_host_tensor_bhsd(out[0], 1, 25, 4);
    EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
    tensors.out = clattn_host_tensor_bhsd(out[1], 1, 25, 4);
    memcpy(division.first, of_ten, sizeof(of_ten));
    memset(out[1], 0xff, sizeof(out[1]));
    EXPECT_OK(group_call_read(&problem, NULL, NULL, &tensors, NULL, &whole));
    EXPECT_OK(group_run_divided(group, &division, &whole));
    ck_assert_mem_eq(out[0], out[1], sizeof(out[0]));

    backward.forward = &problem;
    backward.gradients = CLATTN_GRADIENT_SLOPES;
    backward.strategy = "plain";
    gradients.dout = clattn_host_tensor_bhsd(query, 1, 25, 4);
    gradients.dslopes = (clattn_host_tensor){ &dslopes[0], 0, { 0, 1, 0, 0 } }; /* a sum over the batch */
    EXPECT_OK(clattn_backward_host(context, &backward, NULL, &tensors, &gradients));
    gradients.dslopes.data = &dslopes[1];
    division.axis = GROUP_BATCH;
    division.pieces = 2;
    memcpy(division.first, of_two, sizeof(of_two));
    EXPECT_OK(group_call_read(&problem, &backward, NULL, &tensors, &gradients, &whole));
    EXPECT_OK(group_run_divided(group, &division, &whole));
    ck_assert_msg(dslopes[0] != 0 && dslopes[0] == dslopes[1], "%g, must be %g", (double)dslopes[1],
                  (double)dslopes[0]);
}
END_TEST

/* Gradients that are added to what is there are added once, whatever was tried. */
START_TEST(test_gradients_are_added_once)
{
    float ones[2 * 6 * 8], out[2 * 6 * 8], lse[2 * 6], sums[2][2 * 6 * 8];
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    for (size_t i = 0; i < sizeof(ones) / sizeof(*ones); ++i) {
        ones[i] = 1;
        sums[0][i] = sums[1][i] = (float)i;
    }
    forward.query_heads = forward.kv_heads = 2;
    forward.query_len = forward.key_len = 6;
    forward.head_dim = 8;
    forward.features = CLATTN_WITH_LSE;
    tensors.query = tensors.key = tensors.value = clattn_host_tensor_bhsd(ones, 2, 6, 8);
    tensors.out = clattn_host_tensor_bhsd(out, 2, 6, 8);
    tensors.lse = clattn_host_tensor_bhsd(lse, 2, 6, 1);
    EXPECT_OK(clattn_group_forward_host(group, &forward, NULL, &tensors));
    backward.forward = &forward;
    backward.gradients = backward.accumulate = CLATTN_GRADIENT_VALUE;
    gradients.dout = clattn_host_tensor_bhsd(ones, 2, 6, 8);
    gradients.dvalue = clattn_host_tensor_bhsd(sums[0], 2, 6, 8);
    EXPECT_OK(clattn_group_backward_host(group, &backward, NULL, &tensors, &gradients));
    gradients.dvalue = clattn_host_tensor_bhsd(sums[1], 2, 6, 8);
    EXPECT_OK(clattn_backward_host(context, &backward, NULL, &tensors, &gradients));
    for (size_t i = 0; i < sizeof(ones) / sizeof(*ones); ++i) {
        ck_assert_msg(sums[0][i] - sums[1][i] < 1e-5f && sums[1][i] - sums[0][i] < 1e-5f, "element %zu: %g, must be %g",
                      i, (double)sums[0][i], (double)sums[1][i]);
    }
}
END_TEST

START_TEST(test_groups_by_name)
{
    clattn_group *named = NULL;
    EXPECT_OK(clattn_group_open(NULL, NULL, &named));
    ck_assert_uint_eq(clattn_group_count(named), 1);
    ck_assert_ptr_nonnull(clattn_group_context(named, 0));
    ck_assert_ptr_null(clattn_group_context(named, 1));
    clattn_group_destroy(named);
    EXPECT_OK(clattn_group_open("0:0+0:0", NULL, &named));
    ck_assert_uint_eq(clattn_group_count(named), 2);
    clattn_group_destroy(named);
    clattn_group_destroy(NULL);
}
END_TEST

START_TEST(test_refused)
{
    clattn_group *none;
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_context *twice[2] = { context, context };
    expect_error(clattn_group_create(0, contexts, &none), CLATTN_INVALID_ARGUMENT, "count 0: must be 1 to 16", "none");
    expect_error(clattn_group_create(2, twice, &none), CLATTN_INVALID_ARGUMENT, "contexts[1]: is contexts[0] too",
                 "twice");
    expect_error(clattn_group_open("0:0+", NULL, &none), CLATTN_INVALID_ARGUMENT, "a name in the list is empty",
                 "empty");
    expect_error(clattn_group_open("0:0+no such device", NULL, &none), CLATTN_NO_DEVICE, "no such device", "unknown");
    problem.head_dim = 0;
    expect_error(clattn_group_forward_host(group, &problem, NULL, &tensors), CLATTN_INVALID_SHAPE, "head_dim 0",
                 "shape");
    problem.head_dim = 4;
    problem.query_len = problem.key_len = 2;
    expect_error(clattn_group_forward_host(group, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "query: must be given", "tensors");
    expect_error(clattn_group_forward_host(NULL, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "group: must not be NULL", "NULL");
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_unchecked_fixture(tests, open_group, close_group);
    tcase_add_test(tests, test_forward_has_the_bits_of_the_whole);
    tcase_add_test(tests, test_gradients_have_the_bits_of_the_whole);
    tcase_add_test(tests, test_a_division_is_kept);
    tcase_add_test(tests, test_other_calls_of_a_problem);
    tcase_add_test(tests, test_gradients_are_added_once);
    tcase_add_test(tests, test_groups_by_name);
    tcase_add_test(tests, test_refused);
}

int main(void)
{
    return api_main("group", add);
}
