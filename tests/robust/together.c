/* usage: together [--contexts N] [--small]
 *
 * Every device of every platform at once: a thread for each, with a context of its own (or N threads and contexts
 * a device), all calls of sample.h by auto, against the reference; --small: those that an interpreter of kernels
 * gets through. Prints for each device "bits HASH name of platform", a digest of all outputs: tests/runtimes/together
 * compares it with that of a process where the device is alone. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/small_calls.h"

#define WORKERS_MAX 64
#define ROUNDS 2
#define SMALL_WORK 45000

struct worker {
    char device[32]; /* "PLATFORM:NUMBER" */
    char name[600];
    int64_t work_limit;
    uint64_t bits[ROUNDS];
    int passed, failed, skipped;
};

static pthread_barrier_t together;

static void report(struct worker *worker, int ok, int sample, const char *what)
{
    worker->passed += ok;
    worker->failed += !ok;
    if (!ok) {
        printf("FAILED %s, \"%s\": %s\n", worker->name, sample_name(sample), what);
    }
}

static uint64_t add_bits(uint64_t bits, const struct test_call *test)
{
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const struct test_array *array = &test->arrays[id];
        for (size_t i = 0; forward_is_output(id) && array->data && i < (size_t)array->count * array->element_bytes;
             ++i) {
            bits = (bits ^ array->data[i]) * 1099511628211u;
        }
    }
    return bits;
}

static int64_t work_of(const clattn_problem *p)
{
    return p->batch * p->query_heads * p->query_len * p->key_len * 2 * p->head_dim;
}

static uint64_t run_sample(struct worker *worker, clattn_context *context, int sample, uint64_t bits)
{
    struct test_call test, expected;
    sample_create(&test, sample, NULL);
    sample_create(&expected, sample, NULL);
    if (work_of(&test.problem) <= worker->work_limit) {
        clattn_status status = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
        if (status == CLATTN_UNSUPPORTED) {
            ++worker->skipped;
        } else {
            report(worker, status == CLATTN_OK, sample, clattn_last_error());
        }
        if (status == CLATTN_OK &&
            clattn_reference_forward(&expected.problem, &expected.values, &expected.tensors) == CLATTN_OK) {
            report(worker, sample_difference(&test, &expected) <= sample_tolerance(&test), sample,
                   "outputs differ from the reference");
            bits = add_bits(bits, &test);
        }
    }
    test_call_free(&test);
    test_call_free(&expected);
    return bits;
}

static void *work(void *data)
{
    struct worker *worker = data;
    clattn_context *context;
    pthread_barrier_wait(&together);
    if (clattn_context_open(worker->device, NULL, &context) != CLATTN_OK) {
        report(worker, 0, 0, clattn_last_error());
        return NULL;
    }
    for (int round = 0; round < ROUNDS; ++round) {
        worker->bits[round] = 14695981039346656037u;
        for (int i = 0; i < sample_count; ++i) {
            worker->bits[round] = run_sample(worker, context, i, worker->bits[round]);
        }
        report(worker, worker->bits[round] == worker->bits[0], 0, "the second round has other bits");
    }
    clattn_context_destroy(context);
    return NULL;
}

/* ---- who works ------------------------------------------------------------------------------ */

static void name_worker(struct worker *worker, cl_platform_id platform, cl_device_id device)
{
    char device_name[256] = "", platform_name[256] = "";
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(device_name), device_name, NULL);
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(platform_name), platform_name, NULL);
    snprintf(worker->name, sizeof(worker->name), "%s of %s", device_name, platform_name);
}

/* A worker for each device and context. */
static int hire(struct worker *workers, int contexts, int64_t work_limit)
{
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    int count = 0;
    clGetPlatformIDs(16, platforms, &platform_count);
    for (cl_uint p = 0; p < platform_count && p < 16; ++p) {
        cl_device_id devices[16];
        cl_uint device_count = 0;
        clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &device_count);
        for (cl_uint d = 0; d < device_count && d < 16; ++d) {
            for (int c = 0; c < contexts && count < WORKERS_MAX; ++c) {
                struct worker *worker = &workers[count++];
                snprintf(worker->device, sizeof(worker->device), "%u:%u", p, d);
                name_worker(worker, platforms[p], devices[d]);
                worker->work_limit = work_limit;
            }
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    static struct worker workers[WORKERS_MAX];
    pthread_t threads[WORKERS_MAX];
    int contexts = 1, passed = 0, failed = 0, skipped = 0;
    int64_t work_limit = INT64_MAX;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--small") == 0) {
            work_limit = SMALL_WORK;
        } else if (strcmp(argv[i], "--contexts") == 0 && i + 1 < argc) {
            contexts = atoi(argv[++i]);
        } else {
            printf("usage: together [--contexts N] [--small]\n");
            return 2;
        }
    }
    const int count = hire(workers, contexts, work_limit);
    if (count == 0) {
        printf("no device\n0 passed, 1 failed, 0 skipped\n");
        return 1;
    }
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (int i = 0; i < count; ++i) {
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(threads[i], NULL);
        printf("bits %016llx %s\n", (unsigned long long)workers[i].bits[0], workers[i].name);
        passed += workers[i].passed;
        failed += workers[i].failed;
        skipped += workers[i].skipped;
    }
    pthread_barrier_destroy(&together);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || passed == 0 ? 1 : 0;
}
