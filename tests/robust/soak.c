/* Calls, again and again in one process: of each sample on each strategy that takes it, a quarter of them with a plan
 * of their own; of layers, gradients, caches. Outputs keep their bits; memory, descriptors and threads do not grow.
 * What is resident grows at times because malloc or a driver's threads take room that they keep; what leaks grows in
 * each part of the calls, so the part that grows least is judged.
 *
 * CLATTN_SOAK_CALLS: how many calls; 3,000 where it is not set, a million once by hand. The first tenth, or three
 * rounds, warm up. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer_calls.h"
#include "support/small_cache.h"
#include "support/small_calls.h"

#define CASES_MAX 120
#define GROWTH_MAX (1 << 19)
#define PARTS 4

/* ---- what a process has ------------------------------------------------------------------------- */

struct holdings {
    long heap, resident, descriptors, threads; /* bytes; -1: nobody tells */
};

static long entries_of(const char *folder)
{
    DIR *directory = opendir(folder);
    long count = 0;
    if (!directory) {
        return -1;
    }
    while (readdir(directory)) {
        ++count;
    }
    closedir(directory);
    return count;
}

/* Sanitizers keep what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEPS_FREED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEPS_FREED 1
#endif
#endif
#ifndef KEEPS_FREED
#define KEEPS_FREED 0
#endif

static long resident_bytes(void)
{
    FILE *file = KEEPS_FREED ? NULL : fopen("/proc/self/statm", "r");
    long all, resident = -1;
    if (file) {
        resident = fscanf(file, "%ld %ld", &all, &resident) == 2 ? resident * sysconf(_SC_PAGESIZE) : -1;
        fclose(file);
    }
    return resident;
}

/* What was allocated and not freed, by whomever; -1 where the library has no such count, or a sanitizer its own. */
static long heap_bytes(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 info = mallinfo2();
    return KEEPS_FREED ? -1 : (long)(info.uordblks + info.hblkhd);
#else
    return -1;
#endif
}

static struct holdings holdings_now(void)
{
    return (struct holdings){ heap_bytes(), resident_bytes(), entries_of("/proc/self/fd"),
                              entries_of("/proc/self/task") };
}

/* ---- the calls ---------------------------------------------------------------------------------- */

struct soaked {
    const char *strategy;
    int sample;
    struct test_call test, expected;
    clattn_plan *plan;
    struct sample_device device;
};

static struct soaked cases[CASES_MAX];
static int case_count;
static clattn_context *context;
static cl_command_queue queue;
static struct layer_calls layers;
static struct small_cache cache;

static void must(int holds, const char *what)
{
    if (!holds) {
        printf("FAILED %s: %s\n0 passed, 1 failed, 0 skipped\n", what, clattn_last_error());
        exit(1);
    }
}

static void add_case(int sample, const char *strategy)
{
    struct soaked *added = &cases[case_count];
    added->strategy = strategy;
    added->sample = sample;
    sample_create(&added->test, sample, strategy);
    sample_create(&added->expected, sample, strategy);
    const clattn_status status = clattn_plan_create(context, &added->test.problem, &added->plan);
    if (status != CLATTN_OK) {
        must(status == CLATTN_UNSUPPORTED, strategy);
        test_call_free(&added->test);
        test_call_free(&added->expected);
        return;
    }
    must(clattn_forward_host(context, &added->expected.problem, &added->expected.values, &added->expected.tensors) ==
             CLATTN_OK,
         "the first call");
    must(sample_upload(&added->device, &added->test, clattn_context_cl(context), clattn_plan_workspace(added->plan)),
         "device memory");
    ++case_count;
}

static void add_cases(void)
{
    const char *strategy;
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        for (int i = 0; i < sample_count && case_count < CASES_MAX; ++i) {
            add_case(i, strategy);
        }
    }
}

static void enqueue(struct soaked *of, const clattn_plan *plan, const char *what)
{
    must(clattn_enqueue_forward(plan, queue, &of->device.values, &of->device.tensors, 0, NULL, NULL) == CLATTN_OK &&
             sample_download(&of->device, &of->test, queue),
         what);
}

static void call_fresh_plan(struct soaked *of)
{
    clattn_plan *plan;
    must(clattn_plan_create(context, &of->test.problem, &plan) == CLATTN_OK, "a fresh plan");
    enqueue(of, plan, "a call with a fresh plan");
    clattn_plan_destroy(plan);
}

static void call_host(struct soaked *of)
{
    must(clattn_forward_host(context, &of->test.problem, &of->test.values, &of->test.tensors) == CLATTN_OK,
         "a blocking call");
}

static void call_layer(long number)
{
    clattn_status status;
    cl_event done = NULL;
    switch (number % 7) {
    case 0:
        status = layer_calls_mha(&layers, queue, &done);
        break;
    case 1:
        status = layer_calls_additive(&layers, queue, &done);
        break;
    case 2:
        status = layer_calls_backward(&layers, queue, &done);
        break;
    case 3:
        status = layer_calls_mha_backward(&layers, queue, &done);
        break;
    case 4:
        status = layer_calls_additive_backward(&layers, queue, &done);
        break;
    case 5:
        status = small_cache_rotary(&cache, queue, &done);
        break;
    default:
        status = small_cache_append(&cache, queue, &done);
        break;
    }
    must(status == CLATTN_OK && clWaitForEvents(1, &done) == CL_SUCCESS, "a layer or a cache");
    clReleaseEvent(done);
}

/* A refused call must cost nothing either. */
static void call_refused(struct soaked *of)
{
    clattn_problem wrong = of->test.problem;
    clattn_plan *plan;
    wrong.head_dim = -1;
    must(clattn_plan_create(context, &wrong, &plan) == CLATTN_INVALID_SHAPE, "a refusal");
}

/* Eight calls: two have a plan of their own, three one that was kept, one each is blocking, a layer, refused. */
static void call(long number)
{
    struct soaked *of = &cases[number / 8 % case_count];
    switch (number % 8) {
    case 0:
    case 4:
        call_fresh_plan(of);
        break;
    case 1:
        call_host(of);
        break;
    case 2:
        call_layer(number / 8);
        return;
    case 3:
        call_refused(of);
        return;
    default:
        enqueue(of, of->plan, "a call");
        break;
    }
    must(sample_equal(&of->test, &of->expected), "the same bits");
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static int judge(const char *what, long before, long after, long most)
{
    const int good = before < 0 || after - before <= most;
    printf("%-12s %12ld %12ld%s\n", what, before, after,
           before < 0 ? "   nobody tells"
           : good     ? ""
                      : "   FAILED: grew");
    return good;
}

/* Calls, and what the process has after each of PARTS parts of them, behind what it has before. */
static void soak(long count, struct holdings had[PARTS + 1])
{
    had[0] = holdings_now();
    for (int part = 0; part < PARTS; ++part) {
        for (long i = count * part / PARTS; i < count * (part + 1) / PARTS; ++i) {
            call(i);
        }
        had[part + 1] = holdings_now();
        printf("part %d of %d: heap %ld, resident %ld\n", part + 1, PARTS, had[part + 1].heap, had[part + 1].resident);
    }
}

/* The part in which resident memory grew least: that is what it had before and after it. */
static int least_growing(const struct holdings had[PARTS + 1])
{
    int least = 0;
    for (int part = 1; part < PARTS; ++part) {
        if (had[part + 1].resident - had[part].resident < had[least + 1].resident - had[least].resident) {
            least = part;
        }
    }
    return least;
}

int main(void)
{
    const char *wanted = getenv("CLATTN_SOAK_CALLS");
    const long count = wanted && wanted[0] ? atol(wanted) : 3000;
    struct holdings had[PARTS + 1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(clattn_context_open(NULL, NULL, &context) == CLATTN_OK, "a context");
    queue = clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), 0, NULL);
    must(layer_calls_create(&layers, context) && small_cache_create(&cache, context), "layers");
    add_cases();
    const long round = 8L * case_count, warm = count / 10 > 3 * round ? count / 10 : 3 * round;
    for (long i = 0; i < warm; ++i) {
        call(i);
    }
    soak(count, had);
    printf("%d samples on strategies; %ld calls to warm up, %ld then\n%-12s %12s %12s\n", case_count, warm, count, "",
           "before", "after");
    const struct holdings *before = &had[0], *after = &had[PARTS], *part = &had[least_growing(had)];
    int good = judge("heap", before->heap, after->heap, GROWTH_MAX);
    good &= judge("resident", part[0].resident, part[1].resident, GROWTH_MAX / PARTS);
    good &= judge("descriptors", before->descriptors, after->descriptors, 0);
    good &= judge("threads", before->threads, after->threads, 0);
    for (int i = 0; i < case_count; ++i) {
        sample_release(&cases[i].device);
        clattn_plan_destroy(cases[i].plan);
        test_call_free(&cases[i].test);
        test_call_free(&cases[i].expected);
    }
    small_cache_release(&cache);
    layer_calls_release(&layers);
    clReleaseCommandQueue(queue);
    clattn_context_destroy(context);
    printf("%d passed, %d failed, 0 skipped\n", good, !good);
    return !good;
}
