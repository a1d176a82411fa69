/* Plans that compete for one problem. */
#include "tune_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_call.h"
#include "check.h"
#include "insides.h"
#include "library.h"
#include "progress.h"

#define CHECK_BUDGET 2e7 /* multiplications of the reference: about 0.2 s */
#define TURNS_LEAST 5    /* a half */
#define TURNS_MOST 200
#define HALF_SECONDS 0.15
#define HALF_SECONDS_MOST 2 /* of calls so long that there are fewer turns */

struct wisdom_class tune_strategy_class(const char *strategy, const clattn_problem *problem)
{
    struct problem resolved;
    const int is_valid = problem_init(&resolved, problem) == CLATTN_OK;
    return wisdom_strategy_class_of(strategy, is_valid ? &resolved.p : problem); /* a plan will say what is wrong */
}

int tune_run_make(struct tune_run *run, struct failure *failure)
{
    return bench_data_make(run->problem, run->context, &run->data, failure);
}

void tune_run_free(struct tune_run *run)
{
    run->data.device.workspace = NULL; /* its candidate's */
    bench_data_free(&run->data);
    free(run->expected);
}

void candidate_free(struct candidate *candidate)
{
    clattn_plan_destroy(candidate->plan);
    if (candidate->workspace) {
        clReleaseMemObject(candidate->workspace);
    }
    memset(candidate, 0, sizeof *candidate);
}

/* ---- making ---- */

static int plan_with(struct tune_run *run, const struct wisdom_fact *facts, int count, clattn_plan **plan,
                     struct failure *failure)
{
    struct wisdom *wisdom = run->context->wisdom, *before = malloc(sizeof *before);
    if (!before) {
        return failure_failed(failure, "out of memory");
    }
    *before = *wisdom;
    for (int i = 0; i < count; i++) {
        wisdom_learn(wisdom, &facts[i]);
    }
    const clattn_status status = clattn_plan_create(run->context, run->problem, plan);
    *wisdom = *before;
    free(before);
    return status == CLATTN_OK ? 0 : library_failure(run->options, status, failure);
}

static int call(struct tune_run *run, struct candidate *candidate, struct failure *failure)
{
    run->data.device.workspace = candidate->workspace;
    return bench_call(run->options, candidate->plan, clattn_context_queue(run->context), &run->data, failure);
}

int candidate_make(struct tune_run *run, const struct wisdom_fact *facts, int count, struct candidate *candidate,
                   struct failure *failure)
{
    if (plan_with(run, facts, count, &candidate->plan, failure) != 0 ||
        bench_workspace_make(candidate->plan, run->context, &candidate->workspace, failure) != 0 ||
        bench_data_spoil_outputs(run->context, &run->data, failure) != 0 || call(run, candidate, failure) != 0) {
        return -1;
    }
    return bench_data_read_outputs(run->context, &run->data, failure);
}

/* ---- checking ---- */

int tune_outputs_right(struct tune_run *run, const struct candidate *candidate, int *are_right, struct failure *failure)
{
    struct check check;
    if (check_forward(run->context, run->problem, NULL, &run->data.host, candidate->plan, CHECK_BUDGET, &check,
                      failure) != 0) {
        return -1;
    }
    *are_right = check.out_share <= 1 && check.lse_share <= 1;
    return 0;
}

static size_t output_bytes(const struct tune_run *run, int id)
{
    const struct tensor *tensor = &run->data.tensor[id];
    return tensor->data ? tensor_bytes(tensor) : 0;
}

int tune_keep_outputs(struct tune_run *run, struct failure *failure)
{
    size_t bytes = 0;
    for (int id = BENCH_OUTPUTS; id < BENCH_TENSORS; id++) {
        bytes += output_bytes(run, id);
    }
    free(run->expected);
    run->expected = malloc(bytes + !bytes);
    if (!run->expected) {
        return failure_failed(failure, "no memory for %zu bytes of outputs", bytes);
    }
    bytes = 0;
    for (int id = BENCH_OUTPUTS; id < BENCH_TENSORS; id++) {
        if (output_bytes(run, id)) {
            memcpy(run->expected + bytes, run->data.tensor[id].data, output_bytes(run, id));
        }
        bytes += output_bytes(run, id);
    }
    return 0;
}

int tune_outputs_equal(const struct tune_run *run)
{
    const unsigned char *expected = run->expected;
    for (int id = BENCH_OUTPUTS; id < BENCH_TENSORS; id++) {
        if (output_bytes(run, id) && memcmp(expected, run->data.tensor[id].data, output_bytes(run, id)) != 0) {
            return 0;
        }
        expected += output_bytes(run, id);
    }
    return 1;
}

/* ---- measuring ---- */

static int timed_call(struct tune_run *run, struct candidate *candidate, double *ms, struct failure *failure)
{
    const double start = clock_seconds();
    if (call(run, candidate, failure) != 0) {
        return -1;
    }
    *ms = (clock_seconds() - start) * 1e3;
    candidate->best_ms = candidate->best_ms > 0 ? fmin(candidate->best_ms, *ms) : *ms;
    return 0;
}

int candidate_time(struct tune_run *run, struct candidate *candidate, double *ms, struct failure *failure)
{
    double again;
    if (timed_call(run, candidate, ms, failure) != 0 || timed_call(run, candidate, &again, failure) != 0) {
        return -1;
    }
    *ms = fmin(*ms, again);
    return 0;
}

int64_t candidate_ns(const struct candidate *candidate)
{
    return candidate->best_ms * 1e6 >= 1 ? (int64_t)(candidate->best_ms * 1e6) : 1;
}

static int is_enough(int turns, double seconds)
{
    return turns >= TURNS_MOST || (turns >= TURNS_LEAST && seconds >= HALF_SECONDS) ||
           (turns >= 2 && seconds >= HALF_SECONDS_MOST);
}

/* In turns, so that what else the machine does strikes both; by the best time of each. */
static int measure_half(struct tune_run *run, struct candidate *first, struct candidate *second, double *gain,
                        struct failure *failure)
{
    const double start = clock_seconds();
    double first_ms = INFINITY, second_ms = INFINITY, ms;
    for (int n = 0; !is_enough(n, clock_seconds() - start); n++) {
        for (int turn = 0; turn < 2; turn++) {
            const int is_second = (n + turn) % 2;
            if (timed_call(run, is_second ? second : first, &ms, failure) != 0) {
                return -1;
            }
            first_ms = is_second ? first_ms : fmin(first_ms, ms);
            second_ms = is_second ? fmin(second_ms, ms) : second_ms;
        }
    }
    *gain = first_ms / second_ms;
    return 0;
}

int candidate_gain(struct tune_run *run, struct candidate *first, struct candidate *second, double least, double *gain,
                   struct failure *failure)
{
    double again;
    if (measure_half(run, first, second, gain, failure) != 0) {
        return -1;
    }
    if (*gain < least) {
        return 0;
    }
    if (measure_half(run, first, second, &again, failure) != 0) {
        return -1;
    }
    *gain = fmin(*gain, again);
    return 0;
}
