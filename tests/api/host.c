/* The blocking calls: only what strides reach is written, plans of recent problems are kept, inputs stay,
 * the flat call is the long one, two contexts and the caller's own cl_context serve side by side. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api.h"
#include "program/context.h"
#include "support/small_calls.h"

/* Runs every sample on every strategy; outputs, gaps and inputs are checked. */
START_TEST(test_samples)
{
    const char *strategy;
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        for (int i = 0; i < sample_count; ++i) {
            struct test_call test, expected;
            sample_create(&test, i, strategy);
            sample_create(&expected, i, NULL);
            EXPECT_OK(clattn_reference_forward(&expected.problem, &expected.values, &expected.tensors));
            const uint64_t inputs = test_call_input_hash(&test);
            clattn_status status = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
            ck_assert_msg(status == CLATTN_OK || status == CLATTN_UNSUPPORTED, "%s, %s: %s", strategy, sample_name(i),
                          clattn_last_error());
            if (status == CLATTN_OK) {
                ck_assert_msg(sample_difference(&test, &expected) <= sample_tolerance(&test), "%s, %s: off by %g",
                              strategy, sample_name(i), sample_difference(&test, &expected));
            }
            ck_assert_int_eq(test_call_touched(&test), 0);
            ck_assert_msg(test_call_input_hash(&test) == inputs, "%s, %s: changed its inputs", strategy,
                          sample_name(i));
            test_call_free(&test);
            test_call_free(&expected);
        }
    }
}
END_TEST

/* More problems than plans are kept, again and again, in turns and at random: always the right one. */
START_TEST(test_many_problems)
{
    for (int n = 0; n < 60; ++n) {
        const int key_len = 1 + n * 7 % 19;
        float query[4] = { 0 }, key[20 * 4] = { 0 }, value[20 * 4], out[4];
        float sum = 0;
        for (int j = 0; j < key_len; ++j) { /* equal weights: the mean of the values */
            for (int c = 0; c < 4; ++c) {
                value[4 * j + c] = (float)j;
            }
            sum += (float)j;
        }
        EXPECT_OK(clattn_attention(context, CLATTN_FLOAT32, 1, 1, 1, 1, key_len, 4, CLATTN_ALIGN_UNSET, query, key,
                                   value, out));
        for (int c = 0; c < 4; ++c) {
            ck_assert_float_eq_tol(out[c], sum / (float)key_len, 1e-5f);
        }
    }
}
END_TEST

/* A plan is found again whatever was chosen for the problem: its strategy is no part of what was asked for. */
START_TEST(test_plans_are_found_again)
{
    char chosen[256] = "";
    int kinds = 0;
    for (int i = 0; i < sample_count; ++i) {
        struct test_call test;
        sample_create(&test, i, NULL);
        EXPECT_OK(clattn_forward_host(context, &test.problem, &test.values, &test.tensors));
        const clattn_plan *first = context->kept_plans[0];
        EXPECT_OK(clattn_forward_host(context, &test.problem, &test.values, &test.tensors));
        ck_assert_msg(context->kept_plans[0] == first, "%s: %s was planned twice", sample_name(i),
                      clattn_plan_strategy(first));
        if (!strstr(chosen, clattn_plan_strategy(first))) {
            snprintf(chosen + strlen(chosen), sizeof(chosen) - strlen(chosen), "%s ", clattn_plan_strategy(first));
            ++kinds;
        }
        test_call_free(&test);
    }
    ck_assert_msg(kinds > 1, "one strategy was chosen for all samples: %s", chosen);
}
END_TEST

/* Two rows, or heads, or batches, apart from one another: what lies between them is the caller's, where it is copied
 * too. */
START_TEST(test_gaps_between_two)
{
    const size_t alignment = context->sharing_alignment;
    for (int axis = 0; axis < 3; ++axis) {
        float numbers[4] = { 1, 2, 3, 4 }, out[12];
        int64_t n[4] = { 1, 1, 1, 2 };
        n[axis] = 2;
        memset(out, 0xff, sizeof(out));
        clattn_problem p = CLATTN_PROBLEM_INIT;
        clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
        p.batch = n[0];
        p.query_heads = p.kv_heads = n[1];
        p.query_len = n[2];
        p.key_len = 1;
        p.head_dim = n[3];
        p.strategy = "plain";
        t.query = clattn_host_tensor_bhsd(numbers, n[1], n[2], n[3]);
        t.key = t.value = clattn_host_tensor_bhsd(numbers, n[1], 1, n[3]);
        t.out = clattn_host_tensor_bhsd(out, n[1], n[2], n[3]);
        t.out.stride[axis] = 5;
        context->sharing_alignment = 0;
        const clattn_status status = clattn_forward_host(context, &p, NULL, &t);
        context->sharing_alignment = alignment;
        EXPECT_OK(status);
        for (int i = 0; i < 12; ++i) {
            uint32_t bits;
            memcpy(&bits, &out[i], sizeof(bits));
            ck_assert_msg((bits == 0xffffffffu) == (i % 5 > 1 || i > 6), "axis %d, element %d", axis, i);
        }
    }
}
END_TEST

START_TEST(test_flat_call_is_the_long_one)
{
    struct test_call test, flat;
    sample_create(&test, SAMPLE_MASKED, NULL);
    test.problem.features = 0;
    test.tensors.mask.data = test.tensors.lse.data = NULL;
    const clattn_problem *p = &test.problem;
    sample_create(&flat, SAMPLE_MASKED, NULL);
    EXPECT_OK(clattn_forward_host(context, p, &test.values, &test.tensors));
    EXPECT_OK(clattn_attention(context, p->type, p->batch, p->query_heads, p->kv_heads, p->query_len, p->key_len,
                               p->head_dim, p->alignment, flat.tensors.query.data, flat.tensors.key.data,
                               flat.tensors.value.data, flat.tensors.out.data));
    ck_assert_mem_eq(test.arrays[TENSOR_OUT].data, flat.arrays[TENSOR_OUT].data,
                     (size_t)test.arrays[TENSOR_OUT].count * test.arrays[TENSOR_OUT].element_bytes);
    test_call_free(&test);
    test_call_free(&flat);
}
END_TEST

static cl_uint references(cl_context cl)
{
    cl_uint count = 0;
    clGetContextInfo(cl, CL_CONTEXT_REFERENCE_COUNT, sizeof(count), &count, NULL);
    return count;
}

/* Drivers may let go of finished commands, and what these held, in a thread of their own, a little later. */
static int is_let_go(cl_context cl)
{
    const struct timespec a_little = { 0, 10000000 };
    for (int i = 0; i < 1000 && references(cl) != 1; ++i) {
        nanosleep(&a_little, NULL);
    }
    return references(cl) == 1;
}

/* On the caller's cl_context: it is retained, used, and given back. */
START_TEST(test_callers_context)
{
    cl_device_id device = clattn_context_device(context);
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    clattn_context *own;
    EXPECT_OK(clattn_context_create(cl, device, NULL, &own));
    ck_assert_ptr_eq(clattn_context_cl(own), cl);
    ck_assert_ptr_eq(clattn_context_device(own), device);
    ck_assert_ptr_nonnull(clattn_context_queue(own));
    ck_assert_uint_gt(references(cl), 1);
    struct test_call test, other;
    sample_create(&test, SAMPLE_MASKED, NULL);
    sample_create(&other, SAMPLE_MASKED, NULL);
    EXPECT_OK(clattn_forward_host(own, &test.problem, &test.values, &test.tensors));
    EXPECT_OK(clattn_forward_host(context, &other.problem, &other.values, &other.tensors)); /* both are alive */
    ck_assert(sample_equal(&test, &other));
    clattn_context_destroy(own);
    ck_assert(is_let_go(cl));
    clReleaseContext(cl);
    EXPECT_OK(clattn_forward_host(context, &other.problem, &other.values, &other.tensors));
    test_call_free(&test);
    test_call_free(&other);
}
END_TEST

START_TEST(test_context_refused)
{
    cl_device_id device = clattn_context_device(context);
    clattn_context_options options = CLATTN_CONTEXT_OPTIONS_INIT;
    clattn_context *other = context;
    expect_error(clattn_context_create(NULL, device, NULL, &other), CLATTN_INVALID_ARGUMENT, "cl: must not be NULL",
                 "context_create");
    ck_assert_ptr_null(other);
    expect_error(clattn_context_create(clattn_context_cl(context), NULL, NULL, &other), CLATTN_INVALID_ARGUMENT,
                 "device: must not be NULL", "context_create");
    options.struct_size = 3;
    expect_error(clattn_context_open(NULL, &options, &other), CLATTN_INVALID_ARGUMENT, "options.struct_size 3: must be",
                 "context_open");
    ck_assert_ptr_null(other);
}
END_TEST

/* A bound on the workspace is kept, and changes nothing but speed beyond rounding. */
START_TEST(test_workspace_limit)
{
    const char *strategy;
    clattn_context_options options = CLATTN_CONTEXT_OPTIONS_INIT;
    clattn_context *small;
    options.workspace_limit_bytes = 4096;
    EXPECT_OK(clattn_context_open(NULL, &options, &small));
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        struct test_call test, expected;
        clattn_plan *plan;
        sample_create(&test, 2, strategy);
        sample_create(&expected, 2, NULL);
        clattn_status status = clattn_plan_create(small, &test.problem, &plan);
        if (status == CLATTN_UNSUPPORTED) {
            test_call_free(&test);
            test_call_free(&expected);
            continue;
        }
        EXPECT_OK(status);
        ck_assert_msg(clattn_plan_workspace(plan) <= 4096, "%s: workspace of %zu bytes, the bound is 4096", strategy,
                      clattn_plan_workspace(plan));
        clattn_plan_destroy(plan);
        EXPECT_OK(clattn_forward_host(small, &test.problem, &test.values, &test.tensors));
        EXPECT_OK(clattn_reference_forward(&expected.problem, &expected.values, &expected.tensors));
        ck_assert_double_le(sample_difference(&test, &expected), sample_tolerance(&test));
        test_call_free(&test);
        test_call_free(&expected);
    }
    clattn_context_destroy(small);
}
END_TEST

static void *message_of_a_new_thread(void *text)
{
    int *ok = text;
    *ok = strcmp(clattn_last_error(), "") == 0 && clattn_last_error_native() == 0;
    return NULL;
}

START_TEST(test_message_belongs_to_its_thread)
{
    pthread_t thread;
    int ok = 0;
    clattn_plan *plan;
    ck_assert_int_eq(clattn_plan_create(NULL, NULL, &plan), CLATTN_INVALID_ARGUMENT);
    pthread_create(&thread, NULL, message_of_a_new_thread, &ok);
    pthread_join(thread, NULL);
    ck_assert(ok);
    ck_assert_str_ne(clattn_last_error(), "");
}
END_TEST

/* The bytes of a call are those of all its tensors and the workspace, to the last one. */
START_TEST(test_memory_is_summed)
{
    const cl_ulong device_bytes = context->device.global_bytes;
    for (int i = 0; i < 2; ++i) {
        struct test_call test;
        clattn_plan *plan;
        char expected[64];
        sample_create(&test, SAMPLE_PLAIN_FLOAT32, i ? "staged" : "plain");
        const clattn_problem *p = &test.problem;
        EXPECT_OK(clattn_plan_create(context, p, &plan));
        const int64_t columns = p->head_dim + (p->head_dim_v ? p->head_dim_v : p->head_dim);
        const int64_t rows = p->query_heads * p->query_len + p->kv_heads * p->key_len;
        const cl_ulong bytes = (cl_ulong)(p->batch * rows * columns * 4) + clattn_plan_workspace(plan);
        clattn_plan_destroy(plan);
        snprintf(expected, sizeof(expected), "this call needs %llu bytes", (unsigned long long)bytes);
        context->device.global_bytes = bytes - 1;
        const clattn_status refused = clattn_forward_host(context, p, &test.values, &test.tensors);
        context->device.global_bytes = bytes;
        const clattn_status taken = clattn_forward_host(context, p, &test.values, &test.tensors);
        context->device.global_bytes = device_bytes;
        expect_error(refused, CLATTN_OUT_OF_DEVICE_MEMORY, expected, "forward_host");
        EXPECT_OK(taken);
        test_call_free(&test);
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_memory_is_summed);
    tcase_add_test(tests, test_samples);
    tcase_add_test(tests, test_many_problems);
    tcase_add_test(tests, test_plans_are_found_again);
    tcase_add_test(tests, test_gaps_between_two);
    tcase_add_test(tests, test_flat_call_is_the_long_one);
    tcase_add_test(tests, test_callers_context);
    tcase_add_test(tests, test_context_refused);
    tcase_add_test(tests, test_workspace_limit);
    tcase_add_test(tests, test_message_belongs_to_its_thread);
}

int main(void)
{
    return api_main("host", add);
}
