/* Nothing outside of a tensor is read or written. Samples and random calls run with every buffer between
 * pages that cannot be touched (guard_layer), poisoned with NaN: an overrun ends in SIGSEGV, which names the
 * call; poison that was used comes out as NaN; a read-only input that is written ends in SIGSEGV too. Random calls have
 * the guard right behind their buffers or right in front, and half of them are enqueued, with lengths that nobody
 * checks.
 *
 * CLATTN_TEST_SEED, CLATTN_TEST_CASES: which random calls, and how many for each strategy. They are those of
 * tests/random_fused.sh, since some strategies compile for each problem, and its programs are there. Any other
 * program runs guarded too, with OPENCL_LAYERS=tests/icd/.libs/guard_layer.so. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "icd/icd_layers.h"
#include "support/device_call.h"
#include "support/exact_call.h"
#include "support/long_sequences.h"
#include "support/paged_keys.h"
#include "support/random_call.h"
#include "support/small_calls.h"

/* As tests/random_fused.sh has them. */
#define CASES 160
#define CALLS_A_PROGRAM 12
#define WORK_LIMIT 600000

static char current[256] = "nothing yet"; /* what runs, for the signal's message */
static int passed, failed, skipped;

static void on_fault(int signal_number)
{
    static const char text[] = "FAILED: touched what lies outside of its buffers: ";
    ssize_t ignored = write(STDOUT_FILENO, text, sizeof(text) - 1);
    ignored += write(STDOUT_FILENO, current, strlen(current));
    ignored += write(STDOUT_FILENO, "\n", 1);
    (void)ignored;
    _exit(signal_number == SIGSEGV || signal_number == SIGBUS ? 3 : 4);
}

/* Kernel threads fault too; the handler is the process's. */
static void catch_faults(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_fault;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void report(int ok, const char *what, const char *why)
{
    passed += ok;
    failed += !ok;
    if (!ok) {
        printf("FAILED %s: %s\n", what, why);
    }
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* 0 and a message when the strategy cannot take it: not counted. */
static int run(clattn_context *context, struct test_call *test, int on_device)
{
    const clattn_status status = on_device
                                     ? device_call_run(context, test, NULL)
                                     : clattn_forward_host(context, &test->problem, &test->values, &test->tensors);
    if (status == CLATTN_UNSUPPORTED) {
        ++skipped;
        return 0;
    }
    report(status == CLATTN_OK, current, clattn_last_error());
    return status == CLATTN_OK;
}

static void run_samples(clattn_context *context, const char *strategy)
{
    for (int i = 0; i < sample_count; ++i) {
        struct test_call test, expected;
        sample_create(&test, i, strategy);
        sample_create(&expected, i, NULL);
        snprintf(current, sizeof(current), "%s, sample \"%s\"", strategy, sample_name(i));
        if (run(context, &test, 0)) {
            report(clattn_reference_forward(&expected.problem, &expected.values, &expected.tensors) == CLATTN_OK,
                   current, clattn_last_error());
            report(sample_difference(&test, &expected) <= sample_tolerance(&test), current,
                   "outputs differ from the reference: poison, or a wrong element");
            report(test_call_touched(&test) == 0, current, "wrote between an output's elements");
        }
        test_call_free(&test);
        test_call_free(&expected);
    }
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? strtol(text, NULL, 10) : otherwise;
}

static void run_random(clattn_context *context, const char *strategy, uint64_t seed, long count)
{
    atomic_int *in_front = layer_symbol("guard_layer", "guard_layer_in_front");
    for (long n = 0; n < count; ++n) {
        const int on_device = n % 2 != 0;
        struct test_call test;
        enum value_family family;
        const clattn_type type = (clattn_type)(CLATTN_FLOAT32 + n / CALLS_A_PROGRAM % 4);
        const struct random_call_options options = {
            .type = type, .work_limit = WORK_LIMIT, .on_device = on_device, .calls_a_program = CALLS_A_PROGRAM
        };
        clattn_status status = random_call_create(&test, seed, (uint64_t)n, &options, &family);
        snprintf(current, sizeof(current), "%s, random call %ld of seed %llu", strategy, n, (unsigned long long)seed);
        report(status == CLATTN_OK, current, "the generator made a call that is refused");
        test.problem.strategy = strategy;
        atomic_store(in_front, (int)(n / 2 % 2));
        if (status == CLATTN_OK && run(context, &test, on_device)) {
            report(test_call_touched(&test) == 0, current, "wrote between an output's elements");
        }
        test_call_free(&test);
    }
    atomic_store(in_front, 0);
    printf("%s: %ld random calls of seed %llu\n", strategy, count, (unsigned long long)seed);
}

/* Where kernels would read what nobody has: holes, as pages in front of a pool, and the rest of packed sequences that
 * are longer than the problem says, with the guard on either side. */
static void run_places(clattn_context *context, const char *strategy)
{
    static const int64_t lengths[][2] = { { 45, 200 }, { 2, 1100 } }; /* those of tests/metamorphic */
    atomic_int *in_front = layer_symbol("guard_layer", "guard_layer_in_front");
    struct exact e = { .context = context };
    for (int n = 0; n < 4; ++n) {
        const int64_t *length = lengths[n / 2];
        atomic_store(in_front, n % 2);
        snprintf(current, sizeof(current), "%s, holes or long sequences of %d rows", strategy, (int)length[0]);
        exact_begin(&e, strategy, CLATTN_FLOAT32);
        exact_end(&e, holes_are_a_mask(&e, length[0], length[1]) == 0, "holes are their mask", "guarded");
        exact_begin(&e, strategy, CLATTN_FLOAT32);
        exact_end(&e, long_sequences_are_cut(&e, length[0], length[1]) == 0, "long sequences are cut", "guarded");
    }
    atomic_store(in_front, 0);
    passed += e.passed;
    failed += e.failed;
    skipped += e.skipped;
}

/* ---- the test of the test ------------------------------------------------------------------- */

/* A kernel that writes (0) or reads (1) one element past its buffer, writes to its input (2), or reads (3) one element
 * before it. */
static int overrun(const char *kind)
{
    static const char source[] = "__kernel void overrun(__global float *a, __global const float *b, int n, int kind) {"
                                 "    if (kind == 0) a[n] = 1; else if (kind == 1) a[0] = b[n];"
                                 "    else if (kind == 2) ((__global float *)b)[0] = 1; else a[0] = b[kind - 4]; }";
    static const float values[5] = { 1, 2, 3, 4, 5 };
    const char *text = source;
    const cl_int n = 5, number = kind[0] - '0';
    clattn_context *context;
    atomic_int *in_front = layer_symbol("guard_layer", "guard_layer_in_front");
    atomic_store(in_front, number == 3);
    snprintf(current, sizeof(current), "a planted overrun");
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        return 1;
    }
    cl_context cl = clattn_context_cl(context);
    cl_command_queue queue = clattn_context_queue(context);
    cl_device_id device = clattn_context_device(context);
    cl_program program = clCreateProgramWithSource(cl, 1, &text, NULL, NULL);
    clBuildProgram(program, 1, &device, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "overrun", NULL);
    cl_mem a = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof(values), NULL, NULL);
    cl_mem b = clCreateBuffer(cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof(values), (void *)values, NULL);
    const size_t one = 1;
    clSetKernelArg(kernel, 0, sizeof(a), &a);
    clSetKernelArg(kernel, 1, sizeof(b), &b);
    clSetKernelArg(kernel, 2, sizeof(n), &n);
    clSetKernelArg(kernel, 3, sizeof(number), &number);
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    clFinish(queue);
    return 0; /* was not noticed; nothing is released, the process ends */
}

/* Each kind of overrun, in a process of its own, must be noticed. Before anything uses OpenCL here. */
static void check_that_overruns_fault(const char *self)
{
    static const char *const kinds[] = { "0", "1", "2", "3" };
    for (int i = 0; i < 4; ++i) {
        int state = 0;
        pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stdout)) {
                _exit(1);
            }
            execl(self, self, "--overrun", kinds[i], (char *)NULL);
            _exit(1);
        }
        waitpid(child, &state, 0);
        report(WIFEXITED(state) && WEXITSTATUS(state) == 3, "a planted overrun", "was not noticed");
    }
}

int main(int argc, char **argv)
{
    layer_request("guard_layer");
    catch_faults();
    if (argc == 3 && strcmp(argv[1], "--overrun") == 0) {
        return overrun(argv[2]);
    }
    check_that_overruns_fault("/proc/self/exe");
    atomic_long *guarded = layer_symbol("guard_layer", "guard_layer_buffers");
    clattn_context *context;
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        printf("no context: %s\n", clattn_last_error());
        return 1;
    }
    const uint64_t seed = (uint64_t)setting("CLATTN_TEST_SEED", 1);
    const long cases = setting("CLATTN_TEST_CASES", CASES);
    const char *strategy;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        run_samples(context, strategy);
        if (!strchr(strategy, '/')) {
            run_places(context, strategy);
            run_random(context, strategy, seed, cases);
        }
    }
    report(atomic_load(guarded) > 100, "the guard layer", "guarded no buffers");
    clattn_context_destroy(context);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : 0;
}
