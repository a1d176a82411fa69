/* Every OpenCL call and every allocation may fail. For each public call, each strategy and each number n:
 * the n-th OpenCL call (fault_layer) or allocation (failing_memory) in it fails; of pairs of numbers, some. Then
 *   - the call says so: a documented status, a message, for OpenCL calls the code that was given
 *   - or it did without: then its outputs are right, and clattn_last_error is what it was before
 *   - inputs are as they were, the same call works when it is repeated, with the same bits as ever
 *   - a blocking call returns when nothing uses the caller's memory any more
 *   - and when everything is destroyed, nothing lives.
 * Lives share a cl_context and its compiled programs (kept_programs.h).
 * CLATTN_TEST_FAULTS=K: of the numbers only 1, 1 + K, 1 + 2 K, ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/folder.h"
#include "failing_memory.h"
#include "fault_calls.h"
#include "icd/fault_layer.h"
#include "icd/icd_layers.h"
#include "kept_programs.h"

#define FAULTS_MAX 3000
#define PAIRS 5 /* of a step */

static struct fault_layer *layer;
static int passed, failed, skipped;
static long pace = 1; /* from a number to the next */

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("    " __VA_ARGS__);                                                                                \
            printf("\n");                                                                                              \
            return 0;                                                                                                  \
        }                                                                                                              \
    } while (0)

enum source { OPENCL_CALLS, ALLOCATIONS };
static const char *const source_names[] = { "OpenCL call", "allocation" };

/* ---- a life --------------------------------------------------------------------------------- */

static clattn_context *shared; /* whose cl_context lives share */

static void die(const char *what)
{
    printf("    %s failed without a fault: %s\n", what, clattn_last_error());
    exit(1);
}

static void make_queues_and_buffers(struct life *life)
{
    static const cl_command_queue_properties kinds[LIFE_QUEUES] = {
        [OUT_OF_ORDER] = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, [PROFILING] = CL_QUEUE_PROFILING_ENABLE
    };
    cl_context cl = clattn_context_cl(life->context);
    for (int i = 0; i < LIFE_QUEUES; ++i) {
        life->queues[i] = clCreateCommandQueue(cl, clattn_context_device(life->context), kinds[i], NULL);
        if (!life->queues[i]) {
            die("making queues");
        }
    }
    if (!sample_upload(&life->device, &life->test, cl, clattn_plan_workspace(life->plan))) {
        die("making buffers");
    }
}

static clattn_status open_context(struct life *life)
{
    return clattn_context_create(clattn_context_cl(shared), clattn_context_device(shared), NULL, &life->context);
}

static void life_begin(struct life *life, int sample, const char *strategy, enum fault_needs needs)
{
    memset(life, 0, sizeof(*life));
    sample_create(&life->test, sample, strategy);
    sample_create(&life->expected, sample, strategy);
    if (clattn_reference_forward(&life->expected.problem, &life->expected.values, &life->expected.tensors) !=
        CLATTN_OK) {
        die("clattn_reference_forward");
    }
    if (needs >= NEEDS_CONTEXT && open_context(life) != CLATTN_OK) {
        die("clattn_context_open");
    }
    if (needs >= NEEDS_PLAN && do_plan(life) != CLATTN_OK) {
        die("clattn_plan_create");
    }
    if (needs >= NEEDS_BUFFERS) {
        make_queues_and_buffers(life);
    }
    if (needs == NEEDS_LAYERS &&
        (!layer_calls_create(&life->layers, life->context) || !small_cache_create(&life->cache, life->context))) {
        die("making the layers and the cache");
    }
}

static void wait_for_queues(const struct life *life)
{
    for (int i = 0; i < LIFE_QUEUES; ++i) {
        if (life->queues[i]) {
            clFinish(life->queues[i]);
        }
    }
}

/* 0 when something lives on. */
static int life_end(struct life *life)
{
    static const char *const kinds[FAULT_KINDS] = { "contexts", "queues", "buffers", "programs", "kernels", "events" };
    wait_for_queues(life);
    for (int i = 0; i < LIFE_QUEUES; ++i) {
        if (life->queues[i]) {
            clReleaseCommandQueue(life->queues[i]);
        }
    }
    sample_release(&life->device);
    layer_calls_release(&life->layers);
    small_cache_release(&life->cache);
    clattn_plan_destroy(life->plan);
    clattn_context_destroy(life->context);
    clattn_free(life->text);
    test_call_free(&life->test);
    test_call_free(&life->expected);
    int clean = 1;
    for (int kind = 0; kind < FAULT_KINDS; ++kind) {
        long live = atomic_exchange(&layer->live[kind], 0);
        if (live != 0) {
            printf("    references left: %ld %s\n", live, kinds[kind]);
            clean = 0;
        }
    }
    return clean;
}

/* ---- faults --------------------------------------------------------------------------------- */

/* Calls the step with these faults in it; 1 when one struck. */
static int call_with_fault(const struct fault_step *step, struct life *life, enum source source, const long at[2],
                           clattn_status *status)
{
    atomic_store(&layer->failed, NULL);
    atomic_store(&layer->calls, 0);
    atomic_store(&layer->launched, 0);
    atomic_store(&layer->released_early, 0);
    if (source == ALLOCATIONS) {
        failing_memory_start(at[0]);
        failing_memory_also(at[1]);
        *status = step->call(life);
        return failing_memory_stop();
    }
    atomic_store(&layer->fail_at, at[0]);
    atomic_store(&layer->fail_also_at, at[1]);
    *status = step->call(life);
    atomic_store(&layer->fail_at, 0);
    atomic_store(&layer->fail_also_at, 0);
    return atomic_load(&layer->failed) != NULL;
}

static int outputs_right(const struct fault_step *step, struct life *life)
{
    CHECK(step->outputs != 1 || sample_download(&life->device, &life->test, life->queues[IN_ORDER]),
          "reading the outputs failed");
    if (step->outputs) {
        double difference = sample_difference(&life->test, &life->expected);
        CHECK(difference <= sample_tolerance(&life->test), "outputs differ by %g", difference);
        CHECK(test_call_touched(&life->test) == 0, "something beside the outputs was written");
    }
    return 1;
}

static int error_is_clean(enum source source, clattn_status status)
{
    CHECK(status >= CLATTN_INVALID_ARGUMENT && status <= CLATTN_INTERNAL, "status %d is not documented", (int)status);
    CHECK(status != CLATTN_INTERNAL && status != CLATTN_INVALID_SHAPE && status != CLATTN_INVALID_ARGUMENT,
          "status %s does not fit a failure of the machine", clattn_status_name(status));
    CHECK(clattn_last_error()[0], "no message");
    CHECK(source == ALLOCATIONS || clattn_last_error_native() != 0, "no native code with: %s", clattn_last_error());
    CHECK(source == OPENCL_CALLS || status == CLATTN_OUT_OF_HOST_MEMORY || clattn_last_error_native() != 0,
          "status %s when memory ran out: %s", clattn_status_name(status), clattn_last_error());
    return 1;
}

/* Makes the record of the last failure known. */
#define KNOWN_FAILURE "context: must not be NULL"

static void fail_in_a_known_way(void)
{
    clattn_plan *none;
    clattn_plan_create(NULL, NULL, &none);
}

static int record_untouched(void)
{
    CHECK(strcmp(clattn_last_error(), KNOWN_FAILURE) == 0 && clattn_last_error_native() == 0,
          "the call succeeded, but left as the last error: %s", clattn_last_error());
    return 1;
}

/* A probe that does not compile is a verdict on the device, for as long as the context lives: the strategy that
 * rests on it cannot be had, and says which call failed. */
static int is_verdict(clattn_status status)
{
    return status == CLATTN_UNSUPPORTED &&
           strstr(clattn_last_error(), "clBuildProgram failed with CL_BUILD_PROGRAM_FAILURE");
}

/* A pair of faults: after the first, what waits for the commands failed too, and nobody can. */
static int waiting_failed(const long at[2])
{
    const char *call = atomic_load(&layer->failed);
    return at[1] && call && strcmp(call, "clFinish") == 0;
}

/* Faults with these numbers, 0: none; *struck 0 when the step makes fewer calls. */
static int try_faults(const struct fault_step *step, struct life *life, enum source source, const long at[2],
                      int *struck)
{
    clattn_status status;
    const uint64_t inputs = test_call_input_hash(&life->test);
    fail_in_a_known_way();
    *struck = call_with_fault(step, life, source, at, &status);
    CHECK(!step->blocks || atomic_load(&layer->released_early) == 0 || waiting_failed(at),
          "buffers were let go while commands may use them");
    wait_for_queues(life);
    if (status == CLATTN_OK && !record_untouched()) {
        return 0;
    }
    if (*struck && is_verdict(status)) {
        return 1;
    }
    if (*struck && status != CLATTN_OK) {
        CHECK(error_is_clean(source, status), "in the message of a failed %s",
              source == OPENCL_CALLS ? atomic_load(&layer->failed) : "allocation");
        test_call_reset_outputs(&life->test);
        status = step->call(life); /* without a fault */
        wait_for_queues(life);
        if (is_verdict(status)) { /* of the first of two */
            return 1;
        }
    }
    CHECK(status == CLATTN_OK, "the call failed without a fault: %s", clattn_last_error());
    CHECK(inputs == test_call_input_hash(&life->test), "an input was changed");
    return outputs_right(step, life);
}

/* The lives of one step: one for all of its faults, or one each. */
struct lives {
    const struct fault_step *step;
    const char *strategy;
    int sample;
    enum source source;
    struct life life;
};

static int lives_try(struct lives *lives, long first, long second, int *struck)
{
    const struct fault_step *step = lives->step;
    const long at[2] = { first, second };
    if (step->once) {
        life_begin(&lives->life, lives->sample, lives->strategy, step->needs);
    }
    const int ok = try_faults(step, &lives->life, lives->source, at, struck);
    return step->once ? life_end(&lives->life) && ok : ok;
}

/* Some of the pairs, none of neighbours: an unmapping is tried again once, and PoCL keeps what stays mapped. */
static int lives_try_pairs(struct lives *lives, long count)
{
    int ok = 1, struck;
    for (long i = 0; i < PAIRS && ok && count >= 3; ++i) {
        const long first = 1 + i * 7919 % (count - 2);
        ok = lives_try(lives, first, first + 2 + i * 271 % (count - first - 1), &struck);
    }
    return ok;
}

static void begin_disk(const struct lives *lives)
{
    struct life life;
    folder_begin();
    setenv("CLATTN_CACHE_DIR", folder_path(""), 1);
    setenv("CLATTN_CACHE", "on", 1);
    life_begin(&life, lives->sample, lives->strategy, NEEDS_PLAN);
    life_end(&life);
}

static void end_disk(void)
{
    setenv("CLATTN_CACHE", "off", 1);
    unsetenv("CLATTN_CACHE_DIR");
    folder_end();
}

/* All faults of one step. */
static void run_step(const struct fault_step *step, int sample, const char *strategy, enum source source)
{
    int ok = 1, struck = 1;
    long n = 1 - pace;
    struct lives lives = { .step = step, .strategy = strategy, .sample = sample, .source = source };
    if (step->on_disk) {
        begin_disk(&lives);
    }
    if (!step->once) {
        life_begin(&lives.life, sample, strategy, step->needs);
    }
    while (ok && struck && n < FAULTS_MAX) {
        n += pace;
        ok = lives_try(&lives, n, 0, &struck);
    }
    ok = ok && lives_try_pairs(&lives, n - 1);
    if (!step->once) {
        ok &= life_end(&lives.life);
    }
    if (step->on_disk) {
        end_disk();
    }
    if (n == 1 || n >= FAULTS_MAX) { /* it must have been possible to fail it */
        ok &= source == ALLOCATIONS && n == 1;
    }
    printf("%s %s, %s, %s, each %s: %ld faults\n", ok ? "ok    " : "FAILED", strategy, sample_name(sample), step->name,
           source_names[source], (n - 1) / pace);
    if (!ok) {
        printf("       at %s number %ld%s%s\n", source_names[source], n, atomic_load(&layer->failed) ? " " : "",
               atomic_load(&layer->failed) ? atomic_load(&layer->failed) : "");
    }
    passed += ok;
    failed += !ok;
}

/* What knows nothing of strategies is done with the first of them. CLBlast makes hundreds of calls: only
 * where they are made. */
static int concerns(const struct fault_step *step, size_t strategy_index, const char *strategy)
{
    if (step->on_disk) {
        return strategy_index == 0;
    }
    if (strchr(strategy, '/')) {
        return step->call == do_plan || step->call == do_enqueue || step->call == do_timed;
    }
    return strategy_index == 0 || step->needs == NEEDS_PLAN || step->call == do_plan || step->call == do_host;
}

static void run_steps(size_t strategy_index, const char *strategy, int sample, int only_plan)
{
    for (size_t i = 0; i < fault_step_count; ++i) {
        if (only_plan ? fault_steps[i].call == do_plan && !fault_steps[i].on_disk
                      : concerns(&fault_steps[i], strategy_index, strategy)) {
            run_step(&fault_steps[i], sample, strategy, OPENCL_CALLS);
            run_step(&fault_steps[i], sample, strategy, ALLOCATIONS);
        }
    }
}

/* Whether the strategy takes the sample on this device; *rounds: in bfloat16 products, for which the plan
 * asks the ladder. */
static int takes(int sample, const char *strategy, int *rounds)
{
    struct life life;
    life_begin(&life, sample, strategy, NEEDS_CONTEXT);
    clattn_status status = do_plan(&life);
    if (status != CLATTN_OK && status != CLATTN_UNSUPPORTED) {
        die("clattn_plan_create");
    }
    *rounds = clattn_plan_weight_rounding(life.plan) > 0;
    life_end(&life);
    return status == CLATTN_OK;
}

int main(void)
{
    layer_request("fault_layer");
    layer = layer_symbol("fault_layer", FAULT_LAYER_SYMBOL);
    const char *strategy, *chosen = getenv("CLATTN_TEST_FAULTS");
    pace = chosen && atol(chosen) > 0 ? atol(chosen) : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (clattn_context_open(NULL, NULL, &shared) != CLATTN_OK) {
        die("clattn_context_open");
    }
    for (int kind = 0; kind < FAULT_KINDS; ++kind) { /* what it holds is no leak */
        atomic_store(&layer->live[kind], 0);
    }
    atomic_store(&layer->skips_measured, 1);
    kept_programs_start(clattn_context_cl(shared), clattn_context_device(shared), layer);
    for (size_t s = 0; (strategy = sample_strategy(s)); ++s) {
        int rounds, takes_float32 = takes(SAMPLE_MASKED, strategy, &rounds);
        if (takes_float32) {
            run_steps(s, strategy, SAMPLE_MASKED, 0);
        }
        const int takes_bfloat16 = takes(SAMPLE_MASKED_BFLOAT16, strategy, &rounds);
        if (takes_bfloat16 && (rounds || !takes_float32)) {
            run_steps(s, strategy, SAMPLE_MASKED_BFLOAT16, takes_float32);
        }
        if (!takes_float32 && !takes_bfloat16) {
            printf("skipped %s: not on this device\n", strategy);
            ++skipped;
        }
    }
    clattn_context_destroy(shared);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : 0;
}
