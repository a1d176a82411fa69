/* A thread of little stack, 64 KiB, as docs/threads.md promises: calls whose kernels are compiled, and one that fails
 * with a message. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "support/small_calls.h"

#define STACK_BYTES ((size_t)64 << 10)
#define SAMPLES 5 /* the first ones; each compiles */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static struct test_call test;
static clattn_status status;
static char message[256];

static void *call(void *unused)
{
    status = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
    strncpy(message, clattn_last_error(), sizeof(message) - 1);
    return unused;
}

static void on_small_stack(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, call, NULL), 0);
    pthread_attr_destroy(&attributes);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

START_TEST(test_compiled_calls)
{
    for (int i = 0; i < SAMPLES; ++i) {
        sample_create(&test, i, NULL);
        const clattn_status first = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
        if (first == CLATTN_OK) {
            on_small_stack();
            ck_assert_msg(status == CLATTN_OK, "%s: %s", sample_name(i), message);
        }
        test_call_free(&test);
    }
}
END_TEST

START_TEST(test_refused_calls)
{
    sample_create(&test, SAMPLE_MASKED, NULL);
    test.values.scale = 0.5;
    on_small_stack();
    ck_assert_int_eq(status, CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(message, "scale 0.5"));
    test_call_free(&test);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_compiled_calls);
    tcase_add_test(tests, test_refused_calls);
}

int main(void)
{
    if (IS_SANITIZED) {
        printf("built with a sanitizer, whose frames are larger: no small stack was tried\n");
        return 77;
    }
    return api_main("small stack", add);
}
