/* clattn_kernel_times: which kernels a call enqueues, in order, and times of them that fit the call's own. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "clattn_costs.h"
#include "support/merge_two.h"
#include "support/small_cache.h"
#include "support/small_calls.h"

struct timed {
    struct test_call test;
    struct sample_device device;
    clattn_plan *plan;
    cl_command_queue queue;
    clattn_kernel_times *times;
};

static cl_command_queue queue_of(cl_command_queue_properties kind)
{
    cl_command_queue queue =
        clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), kind, NULL);
    ck_assert_ptr_nonnull(queue);
    return queue;
}

static void timed_begin(struct timed *timed, int sample, const char *strategy, cl_command_queue_properties kind)
{
    sample_create(&timed->test, sample, strategy);
    EXPECT_OK(clattn_plan_create(context, &timed->test.problem, &timed->plan));
    ck_assert(
        sample_upload(&timed->device, &timed->test, clattn_context_cl(context), clattn_plan_workspace(timed->plan)));
    timed->queue = queue_of(kind | CL_QUEUE_PROFILING_ENABLE);
    EXPECT_OK(clattn_kernel_times_create(context, timed->queue, &timed->times));
    ck_assert_uint_eq(clattn_kernel_times_count(timed->times), 0);
}

static void timed_end(struct timed *timed)
{
    clattn_kernel_times_destroy(timed->times);
    clReleaseCommandQueue(timed->queue);
    sample_release(&timed->device);
    clattn_plan_destroy(timed->plan);
    test_call_free(&timed->test);
}

static void enqueue(const struct timed *timed, cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    EXPECT_OK(clattn_enqueue_forward(timed->plan, timed->queue, &timed->device.values, &timed->device.tensors, n_wait,
                                     wait, done));
}

static clattn_kernel_time time_of(clattn_kernel_times *times, uint64_t index)
{
    clattn_kernel_time time = CLATTN_KERNEL_TIME_INIT;
    EXPECT_OK(clattn_kernel_times_get(times, index, &time));
    return time;
}

/* The names of kernels from `first` on, each with a blank behind it. */
static const char *names(clattn_kernel_times *times, uint64_t first)
{
    static char text[1000];
    text[0] = 0;
    for (uint64_t i = first; i < clattn_kernel_times_count(times); ++i) {
        strcat(strcat(text, time_of(times, i).kernel), " ");
        ck_assert_uint_lt(strlen(text), sizeof(text) - 100);
    }
    return text;
}

/* One after the other, so no longer together than from the first one's begin to the end of the call's event. */
static void check_span(clattn_kernel_times *times, uint64_t call, cl_event done)
{
    cl_ulong end = 0;
    uint64_t sum = 0, first = 0, before = 0;
    ck_assert_int_eq(clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL), CL_SUCCESS);
    for (uint64_t i = 0; i < clattn_kernel_times_count(times); ++i) {
        const clattn_kernel_time time = time_of(times, i);
        if (time.call != call) {
            continue;
        }
        ck_assert_int_eq(time.is_done, 1);
        ck_assert_uint_gt(time.queued_ns, 0);
        ck_assert_uint_le(time.queued_ns, time.started_ns);
        ck_assert_uint_lt(time.started_ns, time.ended_ns);
        ck_assert_uint_le(before, time.started_ns);
        first = first ? first : time.started_ns;
        before = time.ended_ns;
        sum += time.ended_ns - time.started_ns;
    }
    ck_assert_uint_gt(sum, 0);
    ck_assert_uint_le(sum, end - first);
}

/* ---- which, and how long --------------------------------------------------------------------- */

static void check_calls(const char *strategy, const char *expected, cl_command_queue_properties kind)
{
    struct timed timed;
    cl_event done[2];
    timed_begin(&timed, SAMPLE_MASKED, strategy, kind);
    enqueue(&timed, 0, NULL, &done[0]);
    ck_assert_str_eq(names(timed.times, 0), expected); /* known at once */
    const uint64_t kernels = clattn_kernel_times_count(timed.times);
    enqueue(&timed, 1, &done[0], &done[1]);
    ck_assert_int_eq(clWaitForEvents(1, &done[1]), CL_SUCCESS);
    ck_assert_uint_eq(clattn_kernel_times_count(timed.times), 2 * kernels);
    ck_assert_str_eq(names(timed.times, kernels), expected);
    for (uint64_t i = 0; i < 2 * kernels; ++i) {
        const clattn_kernel_time time = time_of(timed.times, i);
        ck_assert_uint_eq(time.call, i / kernels);
        ck_assert_msg(strncmp(time.kernel, "CLBlast", 7) == 0 ? strcmp(time.file, "CLBlast") == 0
                                                              : strstr(time.file, ".cl") != NULL,
                      "%s of %s", time.kernel, time.file);
    }
    check_span(timed.times, 0, done[0]);
    check_span(timed.times, 1, done[1]);
    clattn_kernel_times_clear(timed.times);
    ck_assert_uint_eq(clattn_kernel_times_count(timed.times), 0);
    enqueue(&timed, 0, NULL, NULL); /* no event is asked for */
    ck_assert_str_eq(names(timed.times, 0), expected);
    ck_assert_uint_eq(time_of(timed.times, 0).call, 0);
    ck_assert_int_eq(clFinish(timed.queue), CL_SUCCESS);
    clReleaseEvent(done[0]);
    clReleaseEvent(done[1]);
    timed_end(&timed);
}

START_TEST(test_calls)
{
    static const cl_command_queue_properties kinds[] = { 0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE };
    for (int kind = 0; kind < 2; ++kind) {
        check_calls("plain", "plain ", kinds[kind]);
        check_calls("staged", "score scale_mask softmax mix_values ", kinds[kind]);
    }
}
END_TEST

/* Two heads: a product each. What keys are hidden from is repaired. */
START_TEST(test_calls_of_clblast)
{
    clattn_device_facts facts = CLATTN_DEVICE_FACTS_INIT;
    EXPECT_OK(clattn_context_get_facts(context, &facts));
    if (facts.has_clblast) {
        check_calls("staged/clblast", "CLBlastSgemm CLBlastSgemm scale_mask softmax CLBlastSgemm CLBlastSgemm repair ",
                    0);
    }
}
END_TEST

/* Nothing waits: behind an event that is not complete kernels are named, and not done. */
START_TEST(test_before_they_ran)
{
    struct timed timed;
    cl_event gate = clCreateUserEvent(clattn_context_cl(context), NULL);
    timed_begin(&timed, SAMPLE_MASKED, "staged", 0);
    enqueue(&timed, 1, &gate, NULL);
    clFlush(timed.queue);
    const uint64_t kernels = clattn_kernel_times_count(timed.times);
    ck_assert_uint_gt(kernels, 1);
    for (uint64_t i = 0; i < kernels; ++i) {
        const clattn_kernel_time time = time_of(timed.times, i);
        ck_assert_int_eq(time.is_done, 0);
        ck_assert(time.queued_ns == 0 && time.started_ns == 0 && time.ended_ns == 0);
        ck_assert_ptr_nonnull(time.event);
    }
    clSetUserEventStatus(gate, CL_COMPLETE);
    const cl_event last = time_of(timed.times, kernels - 1).event;
    ck_assert_int_eq(clWaitForEvents(1, &last), CL_SUCCESS);
    check_span(timed.times, 0, last);
    clReleaseEvent(gate);
    timed_end(&timed);
}
END_TEST

/* Calls that are no plan's add theirs, a call that has nothing to do none, and other queues none. */
START_TEST(test_other_calls)
{
    struct timed timed;
    struct small_cache cache;
    timed_begin(&timed, SAMPLE_MASKED, "plain", 0);
    ck_assert_msg(small_cache_create(&cache, context), "%s", clattn_last_error());
    EXPECT_OK(small_cache_rotary(&cache, timed.queue, NULL));
    EXPECT_OK(small_cache_append(&cache, timed.queue, NULL));
    ck_assert_str_eq(names(timed.times, 0), "rotary append ");
    ck_assert_uint_eq(time_of(timed.times, 1).call, 1);
    EXPECT_OK(small_cache_append(&cache, clattn_context_queue(context), NULL));
    timed.device.values.query_len = 0;
    enqueue(&timed, 0, NULL, NULL);
    ck_assert_uint_eq(clattn_kernel_times_count(timed.times), 2);
    clFinish(timed.queue);
    clFinish(clattn_context_queue(context));
    small_cache_release(&cache);
    timed_end(&timed);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------------- */

enum { THREADS = 4, CALLS = 50 };

static void *call_often(void *given)
{
    struct timed *timed = given;
    for (int i = 0; i < CALLS; ++i) {
        clattn_enqueue_forward(timed->plan, timed->queue, &timed->device.values, &timed->device.tensors, 0, NULL, NULL);
    }
    return NULL;
}

/* Half of the threads have one queue together, the others one each. */
START_TEST(test_threads)
{
    struct timed timed[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        timed_begin(&timed[i], SAMPLE_MASKED, "plain", 0);
    }
    clattn_kernel_times *const own = timed[1].times;
    cl_command_queue second = timed[1].queue;
    timed[1].queue = timed[0].queue;
    for (int i = 0; i < THREADS; ++i) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, call_often, &timed[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(thread[i], NULL);
    }
    timed[1].queue = second;
    ck_assert_uint_eq(clattn_kernel_times_count(timed[0].times), 2 * CALLS);
    ck_assert_uint_eq(clattn_kernel_times_count(own), 0);
    int seen[2 * CALLS] = { 0 };
    for (uint64_t i = 0; i < 2 * CALLS; ++i) {
        const uint64_t call = time_of(timed[0].times, i).call;
        ck_assert_uint_lt(call, 2 * CALLS);
        ck_assert_int_eq(seen[call]++, 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        ck_assert_uint_eq(clattn_kernel_times_count(timed[i].times), i == 0 ? 2 * CALLS : i == 1 ? 0 : CALLS);
        clFinish(timed[i].queue);
    }
    for (int i = 0; i < THREADS; ++i) {
        timed_end(&timed[i]);
    }
}
END_TEST

/* ---- refused ------------------------------------------------------------------------------------ */

START_TEST(test_refused)
{
    clattn_kernel_times *times = NULL, *again = NULL;
    clattn_kernel_time time = CLATTN_KERNEL_TIME_INIT;
    cl_command_queue plain = queue_of(0), queue = queue_of(CL_QUEUE_PROFILING_ENABLE);
    expect_error(clattn_kernel_times_create(context, plain, &times), CLATTN_INVALID_ARGUMENT,
                 "create it with CL_QUEUE_PROFILING_ENABLE", "a queue that takes no times");
    ck_assert_ptr_null(times);
    expect_error(clattn_kernel_times_create(NULL, queue, &times), CLATTN_INVALID_ARGUMENT, "context: must not",
                 "times");
    expect_error(clattn_kernel_times_create(context, NULL, &times), CLATTN_INVALID_ARGUMENT, "queue: must not",
                 "times");
    expect_error(clattn_kernel_times_create(context, queue, NULL), CLATTN_INVALID_ARGUMENT, "times: must not", "times");
    EXPECT_OK(clattn_kernel_times_create(context, queue, &times));
    expect_error(clattn_kernel_times_create(context, queue, &again), CLATTN_INVALID_ARGUMENT, "timed already", "times");
    expect_error(clattn_kernel_times_get(times, 0, &time), CLATTN_INVALID_ARGUMENT, "index 0: must be below 0", "get");
    expect_error(clattn_kernel_times_get(NULL, 0, &time), CLATTN_INVALID_ARGUMENT, "times: must not", "get");
    clattn_kernel_times_destroy(times);
    EXPECT_OK(clattn_kernel_times_create(context, queue, &again)); /* the queue is free for others */
    clattn_kernel_times_destroy(again);
    clattn_kernel_times_destroy(NULL);
    clattn_kernel_times_clear(NULL);
    ck_assert_uint_eq(clattn_kernel_times_count(NULL), 0);
    clReleaseCommandQueue(plain);
    clReleaseCommandQueue(queue);
}
END_TEST

static void add(TCase *tests)
{
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, test_calls);
    tcase_add_test(tests, test_calls_of_clblast);
    tcase_add_test(tests, test_before_they_ran);
    tcase_add_test(tests, test_other_calls);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_refused);
}

int main(void)
{
    return api_main("kernel_times", add);
}
