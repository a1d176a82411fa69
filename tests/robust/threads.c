/* One context, eight threads: they make plans at the same moment, enqueue the same plans on queues of their
 * own with workspaces of their own, make blocking calls, and layers, gradients and caches; every output must have the
 * bits that one thread alone gets, every message must be the own thread's. Also run under ThreadSanitizer
 * (tests/robust/thread_sanitizer).
 *
 * CLATTN_TEST_ROUNDS: how often each thread does everything. CLATTN_TEST_SECONDS: instead, until so many are over.
 * CLATTN_TEST_THREADS: how many threads. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "layer_bits.h"
#include "support/small_calls.h"

#define THREADS_MAX 64
#define CALLS_MAX 64

/* One sample on one strategy: what one thread alone computed, and the plan that all share. */
struct shared_call {
    int sample;
    const char *strategy;
    struct test_call expected;
    clattn_plan *plan;
};

static struct shared_call calls[CALLS_MAX];
static int call_count, thread_count = 8, rounds = 4;
static double end_seconds; /* 0: rounds count */
static int is_over;
static struct layer_bits expected_layers;
static clattn_context *context;
static pthread_barrier_t together;

struct worker {
    int number;
    int passed, failed;
};

static void report(struct worker *worker, int ok, const struct shared_call *call, const char *what)
{
    worker->passed += ok;
    worker->failed += !ok;
    if (!ok) {
        printf("FAILED thread %d, %s, \"%s\": %s (%s)\n", worker->number, call->strategy, sample_name(call->sample),
               what, clattn_last_error());
    }
}

static int enqueue_and_compare(const clattn_plan *plan, cl_command_queue queue, const struct shared_call *call)
{
    struct test_call test;
    struct sample_device device;
    sample_create(&test, call->sample, call->strategy);
    int ok = sample_upload(&device, &test, clattn_context_cl(context), clattn_plan_workspace(plan));
    ok = ok && clattn_enqueue_forward(plan, queue, &device.values, &device.tensors, 0, NULL, NULL) == CLATTN_OK;
    ok = ok && sample_download(&device, &test, queue) && sample_equal(&test, &call->expected);
    sample_release(&device);
    test_call_free(&test);
    return ok;
}

static int host_and_compare(const struct shared_call *call)
{
    struct test_call test;
    sample_create(&test, call->sample, call->strategy);
    int ok = clattn_forward_host(context, &test.problem, &test.values, &test.tensors) == CLATTN_OK &&
             sample_equal(&test, &call->expected);
    test_call_free(&test);
    return ok;
}

static int plan_and_compare(cl_command_queue queue, const struct shared_call *call)
{
    clattn_plan *plan;
    int ok = clattn_plan_create(context, &call->expected.problem, &plan) == CLATTN_OK &&
             enqueue_and_compare(plan, queue, call);
    clattn_plan_destroy(plan);
    return ok;
}

/* Each thread makes its own mistake and must read its own message. */
static int own_message(int number)
{
    char expected[64];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    problem.head_dim = -1 - number;
    snprintf(expected, sizeof(expected), "head_dim %d:", -1 - number);
    return clattn_plan_create(context, &problem, &plan) == CLATTN_INVALID_SHAPE &&
           strncmp(clattn_last_error(), expected, strlen(expected)) == 0;
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One answer for all threads, which meet here. */
static int is_last(int round)
{
    if (pthread_barrier_wait(&together) == PTHREAD_BARRIER_SERIAL_THREAD) {
        is_over = end_seconds > 0 ? now_seconds() >= end_seconds : round >= rounds;
    }
    pthread_barrier_wait(&together);
    return is_over;
}

static void layers_and_compare(struct worker *worker, cl_command_queue queue)
{
    static const struct shared_call layers = { .strategy = "layers" };
    struct layer_bits bits;
    const int ok = layer_bits_compute(context, queue, &bits) && memcmp(&bits, &expected_layers, sizeof(bits)) == 0;
    report(worker, ok, &layers, "own layers, gradients and caches");
}

static void *work(void *data)
{
    static const cl_command_queue_properties kinds[2] = { 0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE };
    struct worker *worker = data;
    cl_command_queue queues[2];
    for (int i = 0; i < 2; ++i) {
        queues[i] = clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), kinds[i], NULL);
    }
    for (int round = 0; !is_last(round); ++round) {
        layers_and_compare(worker, queues[0]);
        for (int i = 0; i < call_count; ++i) {
            /* One call for all at one moment in even rounds, each its own in odd ones. */
            const struct shared_call *call = &calls[(i + (round % 2 ? worker->number : 0)) % call_count];
            /* Odd threads: out of order; not with CLBlast, which declines that, and tiles have other bits. */
            cl_command_queue queue = queues[worker->number % 2 && !strchr(call->strategy, '/')];
            if (round % 2 == 0) {
                pthread_barrier_wait(&together);
            }
            report(worker, plan_and_compare(queue, call), call, "own plan");
            report(worker, enqueue_and_compare(call->plan, queue, call), call, "shared plan");
            report(worker, host_and_compare(call), call, "blocking call");
            report(worker, own_message(worker->number), call, "another thread's message");
        }
    }
    clReleaseCommandQueue(queues[0]);
    clReleaseCommandQueue(queues[1]);
    return NULL;
}

/* What one thread alone computes; a context of its own, so that the threads start with nothing built. */
static void compute_alone(void)
{
    const char *strategy;
    clattn_context *alone;
    if (clattn_context_open(NULL, NULL, &alone) != CLATTN_OK) {
        printf("no context: %s\n", clattn_last_error());
        exit(1);
    }
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        for (int i = 0; i < sample_count && call_count < CALLS_MAX; ++i) {
            struct shared_call *call = &calls[call_count];
            call->sample = i;
            call->strategy = strategy;
            sample_create(&call->expected, i, strategy);
            clattn_status status =
                clattn_forward_host(alone, &call->expected.problem, &call->expected.values, &call->expected.tensors);
            if (status == CLATTN_OK) {
                ++call_count;
            } else {
                test_call_free(&call->expected);
            }
            if (status != CLATTN_OK && status != CLATTN_UNSUPPORTED) {
                printf("FAILED alone, %s, \"%s\": %s\n", strategy, sample_name(i), clattn_last_error());
                exit(1);
            }
        }
    }
    if (!layer_bits_compute(alone, clattn_context_queue(alone), &expected_layers)) {
        printf("FAILED alone, layers: %s\n", clattn_last_error());
        exit(1);
    }
    clattn_context_destroy(alone);
}

static void *make_plan(void *data)
{
    struct shared_call *call = data;
    if (clattn_plan_create(context, &call->expected.problem, &call->plan) != CLATTN_OK) {
        printf("FAILED plan, %s: %s\n", call->strategy, clattn_last_error());
        exit(1);
    }
    return NULL;
}

/* All plans at once, each in a thread of its own: many want the same program. */
static void make_plans_at_once(void)
{
    pthread_t threads[CALLS_MAX];
    for (int i = 0; i < call_count; ++i) {
        pthread_create(&threads[i], NULL, make_plan, &calls[i]);
    }
    for (int i = 0; i < call_count; ++i) {
        pthread_join(threads[i], NULL);
    }
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? atol(text) : otherwise;
}

int main(void)
{
    pthread_t threads[THREADS_MAX];
    struct worker workers[THREADS_MAX] = { { 0 } };
    int passed = 0, failed = 0;
    rounds = (int)setting("CLATTN_TEST_ROUNDS", rounds);
    thread_count = (int)setting("CLATTN_TEST_THREADS", thread_count);
    thread_count = thread_count < THREADS_MAX ? thread_count : THREADS_MAX;
    const double seconds = (double)setting("CLATTN_TEST_SECONDS", 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    compute_alone();
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        printf("no context: %s\n", clattn_last_error());
        return 1;
    }
    make_plans_at_once();
    pthread_barrier_init(&together, NULL, (unsigned)thread_count);
    end_seconds = seconds > 0 ? now_seconds() + seconds : 0;
    for (int i = 0; i < thread_count; ++i) {
        workers[i].number = i;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < thread_count; ++i) {
        pthread_join(threads[i], NULL);
        passed += workers[i].passed;
        failed += workers[i].failed;
    }
    pthread_barrier_destroy(&together);
    for (int i = 0; i < call_count; ++i) {
        clattn_plan_destroy(calls[i].plan);
        test_call_free(&calls[i].expected);
    }
    clattn_context_destroy(context);
    printf("%d calls and the layers of %d threads, %g s or %d rounds\n", call_count, thread_count, seconds, rounds);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed || passed == 0 ? 1 : 0;
}
