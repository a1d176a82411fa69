/* One visit to whatever device the environment gives: run by devices.sh and oclgrind.sh, which set it.
 *
 *     probe                 every sample on every strategy, against the reference
 *     probe --small         those of them that an interpreter of kernels gets through
 *     probe --few           two of them
 *     probe --merge         clattn_merge alone
 *     probe --no-device     opening a context must be CLATTN_NO_DEVICE; prints the message
 *     probe --too-large     a call that needs more memory than the device says it has must be refused
 *                           before anything is computed; prints the message
 *     probe --strategies    prints their names, a line each
 *     probe --here          of those that take a tiny problem of some type on this device
 *     probe --gradients     the same of those that have gradients
 *     probe --is-pocl       exit status 0 when the device is PoCL's
 *     probe --devices N     there are N devices; each one, and two contexts on two of them at once
 *
 * CLATTN_TEST_STRATEGIES: as for sample_strategy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operation/backward.h"
#include "operation/key_sums.h"
#include "support/device_options.h"
#include "support/merge_two.h"
#include "support/small_calls.h"

#define SMALL_WORK 45000

static int passed, failed, skipped;

static void report(int ok, const char *strategy, const char *sample, const char *what)
{
    passed += ok;
    failed += !ok;
    if (!ok) {
        printf("FAILED %s, %s: %s\n", strategy, sample, what);
    }
}

static clattn_context *open_or_die(const char *device)
{
    clattn_context *context;
    if (clattn_context_open(device, NULL, &context) != CLATTN_OK) {
        printf("FAILED no context: %s\n", clattn_last_error());
        exit(1);
    }
    return context;
}

static void run_sample(clattn_context *context, int sample, const char *strategy)
{
    struct test_call test, expected;
    sample_create(&test, sample, strategy);
    sample_create(&expected, sample, NULL);
    clattn_status status = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
    if (status == CLATTN_UNSUPPORTED) {
        ++skipped;
        printf("skipped %s, %s: %s\n", strategy, sample_name(sample), clattn_last_error());
    } else {
        report(status == CLATTN_OK, strategy, sample_name(sample), clattn_last_error());
    }
    if (status == CLATTN_OK) {
        if (clattn_reference_forward(&expected.problem, &expected.values, &expected.tensors) != CLATTN_OK) {
            exit(1);
        }
        report(sample_difference(&test, &expected) <= sample_tolerance(&test), strategy, sample_name(sample),
               "outputs differ from the reference");
    }
    test_call_free(&test);
    test_call_free(&expected);
}

/* Multiply-adds of a sample, about. */
static int64_t work_of(int sample)
{
    struct test_call test;
    sample_create(&test, sample, NULL);
    const clattn_problem p = test.problem;
    test_call_free(&test);
    return p.batch * p.query_heads * p.query_len * p.key_len * 2 * p.head_dim;
}

static void run_samples(clattn_context *context, int count, int64_t work_limit)
{
    const char *strategy;
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        for (int i = 0; i < count; ++i) {
            if (work_of(i) <= work_limit) {
                run_sample(context, i, strategy);
            }
        }
    }
}

/* Merging is a kernel too. */
static void run_merge(clattn_context *context)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT16 };
    const int64_t shape[4] = { 1, 2, 3, 5 };
    unsigned char zeros[1024] = { 0 };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        clattn_partial p = { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE };
        clattn_strides_bhsd(2, 3, 5, p.out.stride);
        clattn_strides_bhsd(2, 3, 1, p.lse.stride);
        p.out.buffer =
            clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 120, zeros, NULL);
        p.lse.buffer =
            clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 24, zeros, NULL);
        clattn_status status =
            merge_two(context, clattn_context_queue(context), types[i], shape, &p, &p, &p, 0, NULL, NULL);
        report(status == CLATTN_OK && clFinish(clattn_context_queue(context)) == CL_SUCCESS, "merge",
               clattn_type_name(types[i]), clattn_last_error());
        clReleaseMemObject(p.out.buffer);
        clReleaseMemObject(p.lse.buffer);
    }
}

static void no_device(void)
{
    clattn_context *context;
    char *text = NULL;
    clattn_status status = clattn_context_open(NULL, NULL, &context);
    printf("%s: %s\n", clattn_status_name(status), clattn_last_error());
    report(status == CLATTN_NO_DEVICE && context == NULL, "open", "without a platform", "status");
    report(strstr(clattn_last_error(), "pocl") != NULL, "open", "without a platform", "says not what to install");
    status = clattn_describe_devices(0, &text);
    report(status == CLATTN_OK && strstr(text, "No OpenCL device") != NULL, "describe", "without a platform",
           text ? text : clattn_last_error());
    clattn_free(text);
}

static void too_large(void)
{
    clattn_context *context = open_or_die(NULL);
    cl_ulong bytes = 0;
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    /* One row, as many keys as do not fit; keys and values are never read: no such memory is there. */
    const int64_t keys = (int64_t)(bytes / 2 / 512) + 1024;
    float row[128] = { 0 };
    clattn_status status =
        clattn_attention(context, CLATTN_FLOAT32, 1, 1, 1, 1, keys, 128, CLATTN_ALIGN_UNSET, row, row, row, row);
    printf("%s: %s\n", clattn_status_name(status), clattn_last_error());
    report(status == CLATTN_OUT_OF_DEVICE_MEMORY && strstr(clattn_last_error(), "bytes"), "forward_host",
           "more memory than there is", clattn_last_error());
    run_sample(context, SAMPLE_MASKED, NULL); /* and the next call works */
    clattn_context_destroy(context);
}

static void several_devices(int count)
{
    clattn_context *contexts[8];
    char name[16];
    for (int i = 0; i < count; ++i) {
        snprintf(name, sizeof(name), "0:%d", i);
        contexts[i] = open_or_die(name);
        report(i == 0 || clattn_context_device(contexts[i]) != clattn_context_device(contexts[0]), name, "devices",
               "is the same as 0:0");
    }
    for (int i = 0; i < count; ++i) {
        run_sample(contexts[i], SAMPLE_MASKED, NULL);
        run_sample(contexts[i], SAMPLE_PLAIN_FLOAT32, NULL);
    }
    /* A queue of the other device is refused by name. */
    struct test_call test;
    clattn_plan *plan;
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    sample_create(&test, SAMPLE_MASKED, NULL);
    clattn_status status = clattn_plan_create(contexts[0], &test.problem, &plan);
    if (status == CLATTN_OK) {
        status = clattn_enqueue_forward(plan, clattn_context_queue(contexts[1]), NULL, &none, 0, NULL, NULL);
    }
    report(status == CLATTN_INVALID_ARGUMENT, "queue", "of the other device", clattn_last_error());
    clattn_plan_destroy(plan);
    test_call_free(&test);
    for (int i = 0; i < count; ++i) {
        clattn_context_destroy(contexts[i]);
    }
}

static int print_strategies(void)
{
    const char *strategy;
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        printf("%s\n", strategy);
    }
    return 0;
}

static int print_strategies_here(void)
{
    const char *strategy;
    clattn_context *context = open_or_die(NULL);
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        if (strategy_takes(context, strategy, CLATTN_FLOAT32) || strategy_takes(context, strategy, CLATTN_FLOAT16) ||
            strategy_takes(context, strategy, CLATTN_BFLOAT16)) {
            printf("%s\n", strategy);
        }
    }
    clattn_context_destroy(context);
    return 0;
}

static int print_strategies_of(const struct operation *operation)
{
    const char *strategy;
    for (size_t s = 0; (strategy = strategy_of_operation(operation, s)); ++s) {
        printf("%s\n", strategy);
    }
    return 0;
}

static int is_pocl(void)
{
    char *text = NULL;
    int found = clattn_describe_devices(0, &text) == CLATTN_OK && strstr(text, "Portable Computing Language");
    clattn_free(text);
    return found;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--strategies") == 0) {
        return print_strategies();
    }
    if (argc == 2 && strcmp(argv[1], "--here") == 0) {
        return print_strategies_here();
    }
    if (argc == 2 && strcmp(argv[1], "--gradients") == 0) {
        return print_strategies_of(&operation_backward);
    }
    if (argc == 2 && strcmp(argv[1], "--key-sums") == 0) {
        return print_strategies_of(&operation_key_sums);
    }
    if (argc == 2 && strcmp(argv[1], "--is-pocl") == 0) {
        return is_pocl() ? 0 : 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 1 || strcmp(argv[1], "--small") == 0 || strcmp(argv[1], "--few") == 0) {
        clattn_context *context = open_or_die(NULL);
        const int count = argc > 1 && strcmp(argv[1], "--few") == 0 ? SAMPLE_MASKED + 1 : sample_count;
        run_samples(context, count, argc == 1 ? INT64_MAX : SMALL_WORK);
        run_merge(context);
        clattn_context_destroy(context);
    } else if (strcmp(argv[1], "--merge") == 0) {
        clattn_context *context = open_or_die(NULL);
        run_merge(context);
        clattn_context_destroy(context);
    } else if (strcmp(argv[1], "--no-device") == 0) {
        no_device();
    } else if (strcmp(argv[1], "--too-large") == 0) {
        too_large();
    } else if (argc == 3 && strcmp(argv[1], "--devices") == 0) {
        several_devices(atoi(argv[2]));
    } else {
        printf("usage: probe [--small | --few | --merge | --no-device | --too-large | --devices N]\n");
        return 2;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || passed == 0 ? 1 : 0;
}
