/* usage: random_calls [--seed N] [--count N] [--index N] [--strategy S,S...] [--type T,T...]
 *                     [--seconds N] [--work N] [--same N] [--device D]
 *
 * Whole calls against the reference by the error bound of support/tolerance.h, over random problems. Half
 * of them take the blocking call, half plan and enqueue. Prints the seed, the largest C that was needed for
 * each type, R (errors over those of the plain pipeline in the same type, support/ratio.h: of the largest
 * ones, and of root mean squares) and counts; a failure prints the command that repeats it. Environment:
 * CLATTN_TEST_SEED, CLATTN_TEST_COUNT, CLATTN_TEST_STRATEGIES stand in for the options. --seconds ends
 * early; what was left counts as skipped.
 * --same: so many calls in a row need the same programs, where a strategy compiles for each problem. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/device_call.h"
#include "support/device_options.h"
#include "support/random_call.h"
#include "support/ratio.h"
#include "support/tolerance.h"

#define TYPES (CLATTN_FLOAT64 + 1)

struct options {
    struct device_options shared;
    uint64_t seed, count, first;
    double seconds;
    int64_t work_limit;
    uint64_t same;
};

/* What one type has come to. */
struct figures {
    double c_out, c_lse, c_weights;
    uint64_t c_out_at; /* the index that needed c_out */
    struct ratio_figures ratio;
    int64_t calls;
};

struct run {
    struct options options;
    clattn_context *context;
    struct figures figures[TYPES];
    int64_t families[VALUE_FAMILIES];
    int64_t passed, failed, skipped, declined;
    time_t started_at;
};

/* ---- options -------------------------------------------------------------------------------- */

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int parse(int argc, char **argv, struct options *o)
{
    const char *seed = environment("CLATTN_TEST_SEED", "1"), *count = environment("CLATTN_TEST_COUNT", "2000");
    const char *index = NULL, *seconds = "0", *work = "0";
    const char *same = "1";
    const struct device_option more[] = { { "seed", &seed },       { "count", &count }, { "index", &index },
                                          { "seconds", &seconds }, { "work", &work },   { "same", &same },
                                          { NULL, NULL } };
    if (device_options_parse_more(argc, argv, "plain,staged,staged/clblast", more, &o->shared) != 0) {
        return -1;
    }
    o->seed = strtoull(seed, NULL, 0);
    o->first = index ? strtoull(index, NULL, 0) : 0;
    o->count = index ? 1 : strtoull(count, NULL, 0);
    o->seconds = strtod(seconds, NULL);
    o->work_limit = strtoll(work, NULL, 0);
    o->same = strtoull(same, NULL, 0);
    return o->same > 0 ? 0 : -1;
}

/* ---- one call ------------------------------------------------------------------------------- */

static void report(struct run *run, uint64_t index, const char *strategy, const struct test_call *test,
                   const char *what)
{
    char line[256];
    problem_describe(&test->checked, line, sizeof(line));
    printf("FAIL %s\n     %s\n     again: tests/random_calls --seed %" PRIu64 " --index %" PRIu64
           " --strategy %s --type %s",
           what, line, run->options.seed, index, strategy_label(strategy),
           clattn_type_name(test->problem.type));
    if (run->options.work_limit) {
        printf(" --work %" PRId64, run->options.work_limit);
    }
    printf(run->options.same > 1 ? " --same %" PRIu64 "\n" : "\n", run->options.same);
    ++run->failed;
}

static void count(struct run *run, uint64_t index, const struct test_call *test, const struct verdict *verdict,
                  const struct ratio *ratio)
{
    struct figures *f = &run->figures[test->problem.type];
    ++run->passed;
    ++f->calls;
    f->c_out_at = verdict->c_out > f->c_out ? index : f->c_out_at;
    f->c_out = fmax(f->c_out, verdict->c_out);
    f->c_lse = fmax(f->c_lse, verdict->c_lse);
    f->c_weights = fmax(f->c_weights, verdict->c_weights);
    ratio_count(&f->ratio, ratio);
}

/* plain: NULL where R is not asked for. */
static void compare(struct run *run, uint64_t index, const char *strategy, const struct test_call *test,
                    const struct expected *expected, uint64_t inputs, const struct plain_errors *plain)
{
    struct verdict verdict;
    struct ratio ratio = { 0 };
    char text[400];
    tolerance_check(test, expected, &verdict);
    if (plain) {
        ratio_check(test, expected, plain, &ratio);
    }
    if (verdict.wrong) {
        snprintf(text, sizeof(text), "%" PRId64 " elements; %s", verdict.wrong, verdict.first);
        report(run, index, strategy, test, text);
    } else if (*ratio.wrong) {
        report(run, index, strategy, test, ratio.wrong);
    } else if (test_call_touched(test)) {
        report(run, index, strategy, test, "wrote between the elements of an output");
    } else if (test_call_input_hash(test) != inputs) {
        report(run, index, strategy, test, "changed an input");
    } else {
        count(run, index, test, &verdict, &ratio);
    }
}

static void run_strategy(struct run *run, uint64_t index, const char *strategy, struct test_call *test,
                         const struct expected *expected, const struct plain_errors *plain)
{
    char text[600];
    strategy_set(&test->problem, strategy);
    test_call_reset_outputs(test);
    uint64_t inputs = test_call_input_hash(test);
    clattn_status status = index / TYPES % 2
                               ? device_call_run(run->context, test, NULL)
                               : device_call_run_blocking(run->context, test);
    if (status == CLATTN_UNSUPPORTED && test->problem.strategy) {
        ++run->declined;
    } else if (status != CLATTN_OK) {
        snprintf(text, sizeof(text), "%s: %s", clattn_status_name(status), clattn_last_error());
        report(run, index, strategy, test, text);
    } else {
        compare(run, index, strategy, test, expected, inputs, plain);
    }
}

static void run_index(struct run *run, uint64_t index)
{
    const struct options *o = &run->options;
    const struct device_options *shared = &o->shared;
    struct random_call_options what = { shared->types[index / o->same % (uint64_t)shared->n_types],
                                        o->work_limit, o->same };
    struct test_call test;
    struct expected expected = { { 0 } };
    enum value_family family;
    if (random_call_create(&test, o->seed, index, &what, &family) != CLATTN_OK) {
        report(run, index, "none", &test, clattn_last_error());
    } else if (expected_create(&expected, &test) != CLATTN_OK) {
        report(run, index, "reference", &test, "out of memory");
    } else {
        ++run->families[family];
        struct plain_errors plain;
        const int has_ratio = family != VALUES_NOT_FINITE;
        if (has_ratio) {
            plain_errors_measure(&test, &expected, &plain);
        }
        for (int s = 0; s < shared->n_strategies; ++s) {
            run_strategy(run, index, shared->strategies[s], &test, &expected, has_ratio ? &plain : NULL);
        }
    }
    expected_free(&expected);
    test_call_free(&test);
}

/* ---- the whole run -------------------------------------------------------------------------- */

static void print_figures(const struct run *run)
{
    printf("%-9s %7s  %-23s  %-24s  %s\n", "", "calls", "C: out, lse, weights", "R: mean, largest, rms",
           "index of that C");
    for (int type = CLATTN_FLOAT32; type < TYPES; ++type) {
        const struct figures *f = &run->figures[type];
        if (f->calls) {
            printf("%-9s %7" PRId64 "  %-7.3f %-7.3f %-7.3f  %-7.3f %-7.4f %-8.3f  %" PRIu64 "\n",
                   clattn_type_name((clattn_type)type), f->calls, f->c_out, f->c_lse, f->c_weights,
                   f->ratio.calls ? f->ratio.sum / (double)f->ratio.calls : 0, f->ratio.worst,
                   f->ratio.worst_square, f->c_out_at);
        }
    }
    printf("values:");
    for (int family = 0; family < VALUE_FAMILIES; ++family) {
        printf(" %s %" PRId64, value_family_name((enum value_family)family), run->families[family]);
    }
    printf("; declined by the strategy: %" PRId64 "\n", run->declined);
}

int main(int argc, char **argv)
{
    struct run run;
    memset(&run, 0, sizeof(run));
    if (parse(argc, argv, &run.options) != 0) {
        return device_options_usage("random_calls");
    }
    run.context = device_options_open(&run.options.shared);
    if (!run.context) {
        return 1;
    }
    printf("seed %" PRIu64 ", %" PRIu64 " problems\n", run.options.seed, run.options.count);
    run.started_at = time(NULL);
    uint64_t done = 0;
    for (; done < run.options.count && run.options.shared.n_types > 0; ++done) {
        if (run.options.seconds > 0 && difftime(time(NULL), run.started_at) > run.options.seconds) {
            break;
        }
        run_index(&run, run.options.first + done);
    }
    run.skipped = (int64_t)(run.options.count - done) * run.options.shared.n_strategies;
    print_figures(&run);
    for (int type = CLATTN_FLOAT16; type <= CLATTN_BFLOAT16; ++type) {
        if (ratio_is_too_large(&run.figures[type].ratio)) {
            printf("FAIL %s: errors are larger than those of the plain pipeline in the mean\n",
                   clattn_type_name((clattn_type)type));
            ++run.failed;
        }
    }
    clattn_context_destroy(run.context);
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", run.passed, run.failed,
           run.skipped);
    return run.failed || !run.passed;
}
