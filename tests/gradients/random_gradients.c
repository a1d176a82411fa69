/* usage: random_gradients [--seed N] [--count N] [--index N] [--strategy S,S...] [--work N] [--with FEATURE,FEATURE...]
 *                         [--digests FILE] [--device D]
 *
 * Whole backward calls against the reference by the error bound of docs/numbers.md, over random problems, layouts and
 * gradients, half of them by the blocking call. Prints the largest C that was needed of each gradient; a failure prints
 * the command that repeats it. --with, --digests: as of random_calls. CLATTN_TEST_SEED and
 * CLATTN_TEST_GRADIENT_COUNT stand in for the options. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/device_options.h"
#include "support/gradient_call.h"
#include "support/random_call.h"
#include "support/random_features.h"
#include "support/user_codes.h"

struct run {
    struct device_options shared;
    clattn_context *context;
    uint64_t seed, count, first;
    const char *with; /* NULL: any */
    const char *code; /* a text; NULL: none */
    FILE *digests;    /* NULL: none; a line a call and strategy: call, type, strategy, a hash of the gradients' bits */
    int64_t work_limit, passed, failed, declined;
    double c[OPTIONS_STRATEGIES_MAX][BACKWARD_TENSOR_COUNT];
    int64_t taken[OPTIONS_STRATEGIES_MAX];
};

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int parse(int argc, char **argv, struct run *run)
{
    const char *seed = environment("CLATTN_TEST_SEED", "1"), *count = environment("CLATTN_TEST_GRADIENT_COUNT", "80");
    const char *index = NULL, *work = "0", *digests = NULL;
    const struct device_option more[] = { { "seed", &seed },      { "count", &count },    { "index", &index },
                                          { "work", &work },      { "with", &run->with }, { "digests", &digests },
                                          { "code", &run->code }, { NULL, NULL } };
    if (device_options_parse_more(argc, argv, "plain", NULL, more, &run->shared) != 0) {
        return -1;
    }
    run->seed = strtoull(seed, NULL, 0);
    run->first = index ? strtoull(index, NULL, 0) : 0;
    run->count = index ? 1 : strtoull(count, NULL, 0);
    run->work_limit = strtoll(work, NULL, 0);
    run->digests = digests ? fopen(digests, "w") : NULL;
    if (digests && !run->digests) {
        perror(digests);
        return -1;
    }
    return random_features_known(run->with) == 0 && test_code_known(run->code) == 0 ? 0 : -1;
}

static void report(struct run *run, const struct gradient_call *g, uint64_t index, const char *strategy,
                   const char *what)
{
    char line[256];
    problem_describe(&g->test.checked.any, line, sizeof(line));
    printf("FAIL %s\n     %s, gradients 0x%x\n     again: tests/gradients/random_gradients --seed %" PRIu64
           " --index %" PRIu64 " --work %" PRId64 " --strategy %s --type %s%s%s%s%s\n",
           what, line, g->problem.gradients, run->seed, index, run->work_limit, strategy,
           clattn_type_name(g->test.problem.type), run->with ? " --with " : "", run->with ? run->with : "",
           run->code ? " --code " : "", run->code ? run->code : "");
    ++run->failed;
}

static void run_strategy(struct run *run, struct gradient_call *g, uint64_t index, int s)
{
    const char *strategy = run->shared.strategies[s], *label = strategy_label(strategy);
    struct gradient_verdict verdict = { .wrong = 0 };
    char text[400] = "";
    strategy_set(&g->test.problem, NULL);
    g->problem.strategy = strategy;
    const uint64_t inputs = test_call_input_hash(&g->test);
    clattn_status status = gradient_call_run(run->context, g, index % 2 == 0);
    if (status == CLATTN_UNSUPPORTED) {
        ++run->declined;
        if (strstr(clattn_last_error(), "self-check: ")) {
            ++run->failed;
            printf("refused: %s, call %" PRIu64 ": %s\n", label, index, clattn_last_error());
        }
        return;
    }
    if (status == CLATTN_OK) {
        status = gradient_call_check(g, &verdict);
    }
    if (status != CLATTN_OK) {
        snprintf(text, sizeof(text), "%s: %s", clattn_status_name(status), clattn_last_error());
    } else if (verdict.wrong) {
        snprintf(text, sizeof(text), "%" PRId64 " elements; %s", verdict.wrong, verdict.first);
    } else if (test_call_input_hash(&g->test) != inputs) {
        snprintf(text, sizeof(text), "changed an input");
    }
    if (run->digests) {
        fprintf(run->digests, "%" PRIu64 " %s %s %016" PRIx64 "\n", index, clattn_type_name(g->test.problem.type),
                label, gradient_call_hash(g));
    }
    if (*text) {
        report(run, g, index, label, text);
        return;
    }
    ++run->passed;
    ++run->taken[s];
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        run->c[s][id] = fmax(run->c[s][id], verdict.c[id]);
    }
}

static void run_index(struct run *run, uint64_t index)
{
    struct random_call_options what = { .type = run->shared.types[index % (uint64_t)run->shared.n_types],
                                        .work_limit = run->work_limit ? run->work_limit : 300000,
                                        .mixed = index % 4 == 0,
                                        .gradients = 1,
                                        .on_device = index % 2 != 0,
                                        .with = run->with,
                                        .code = run->code };
    struct gradient_call g;
    enum value_family family;
    struct random random = random_start(run->seed ^ 0x6772616473, index);
    memset(&g, 0, sizeof(g));
    clattn_status status = random_call_create(&g.test, run->seed, index, &what, &family);
    if (status == CLATTN_OK) {
        status = gradient_call_random(&g, &random);
    }
    if (status != CLATTN_OK) {
        report(run, &g, index, "none", clattn_last_error());
    }
    for (int s = 0; s < run->shared.n_strategies && status == CLATTN_OK; ++s) {
        run_strategy(run, &g, index, s);
    }
    gradient_call_free(&g);
}

int main(int argc, char **argv)
{
    struct run run;
    memset(&run, 0, sizeof(run));
    if (parse(argc, argv, &run) != 0) {
        return device_options_usage("random_gradients");
    }
    run.context = device_options_open(&run.shared);
    if (!run.context) {
        return 1;
    }
    for (uint64_t n = 0; n < run.count; ++n) {
        run_index(&run, run.first + n);
    }
    for (int s = 0; s < run.shared.n_strategies; ++s) {
        printf("%-10s %" PRId64 " calls, C:", strategy_label(run.shared.strategies[s]), run.taken[s]);
        for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
            printf(" %s %.3f", operation_backward.rows[id].name, run.c[s][id]);
        }
        printf("\n");
        if (run.count > 1 && run.taken[s] == 0) {
            printf("FAIL %s declined every call: it was not tested\n", strategy_label(run.shared.strategies[s]));
            ++run.failed;
        }
    }
    clattn_context_destroy(run.context);
    if (run.digests && fclose(run.digests) != 0) {
        perror("digests");
        return 1;
    }
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", run.passed, run.failed, (int64_t)0);
    return run.failed || !run.passed;
}
