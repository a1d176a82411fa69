/* usage: random_calls [--seed N] [--count N] [--index N] [--strategy S,S...] [--type T,T...]
 *                     [--seconds N] [--work N] [--device D]
 *
 * Whole calls against the reference by the error bound of support/tolerance.h, over random problems. Half
 * of them take the blocking call, half plan and enqueue. Prints the seed, the largest C that was
 * needed for each type, R (largest error over that of the plain pipeline in the same type) and counts; a
 * failure prints the command that repeats it. Environment: CLATTN_TEST_SEED, CLATTN_TEST_COUNT,
 * CLATTN_TEST_STRATEGIES stand in for the options. --seconds ends early; what was left counts as skipped. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/device_call.h"
#include "support/naive.h"
#include "support/random_call.h"
#include "support/tolerance.h"

#define STRATEGIES_MAX 8
#define TYPES (CLATTN_FLOAT64 + 1)

struct options {
    uint64_t seed, count, first;
    double seconds;
    int64_t work_limit;
    const char *device;
    char *strategies[STRATEGIES_MAX]; /* "auto" among them */
    int n_strategies;
    clattn_type types[TYPES];
    int n_types;
};

/* What one type has come to. */
struct figures {
    double c_out, c_lse, c_weights;
    double worst_r, sum_r;
    int64_t calls, r_calls;
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

static int split(char *list, char **parts, int most)
{
    int n = 0;
    for (char *part = strtok(list, ","); part && n < most; part = strtok(NULL, ",")) {
        parts[n++] = part;
    }
    return n;
}

static int parse_types(char *list, struct options *options)
{
    char *names[TYPES];
    int n = split(list, names, TYPES);
    for (int i = 0; i < n; ++i) {
        for (int type = CLATTN_FLOAT32; type < TYPES; ++type) {
            if (strcmp(names[i], clattn_type_name((clattn_type)type)) == 0) {
                options->types[options->n_types++] = (clattn_type)type;
            }
        }
    }
    return options->n_types == n ? 0 : -1;
}

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int parse(int argc, char **argv, struct options *o)
{
    static char strategies[256], types[] = "float32,float16,bfloat16,float64";
    int one = 0;
    memset(o, 0, sizeof(*o));
    o->seed = strtoull(environment("CLATTN_TEST_SEED", "1"), NULL, 0);
    o->count = strtoull(environment("CLATTN_TEST_COUNT", "2000"), NULL, 0);
    snprintf(strategies, sizeof(strategies), "%s", environment("CLATTN_TEST_STRATEGIES", "plain,staged"));
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value) {
            return -1;
        } else if (strcmp(argv[i], "--seed") == 0) {
            o->seed = strtoull(value, NULL, 0);
        } else if (strcmp(argv[i], "--count") == 0) {
            o->count = strtoull(value, NULL, 0);
        } else if (strcmp(argv[i], "--index") == 0) {
            o->first = strtoull(value, NULL, 0);
            one = 1;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            o->seconds = strtod(value, NULL);
        } else if (strcmp(argv[i], "--work") == 0) {
            o->work_limit = strtoll(value, NULL, 0);
        } else if (strcmp(argv[i], "--device") == 0) {
            o->device = value;
        } else if (strcmp(argv[i], "--strategy") == 0) {
            snprintf(strategies, sizeof(strategies), "%s", value);
        } else if (strcmp(argv[i], "--type") != 0 || parse_types(argv[i + 1], o) != 0) {
            return -1;
        }
    }
    o->count = one ? 1 : o->count;
    o->n_strategies = split(strategies, o->strategies, STRATEGIES_MAX);
    return o->n_types ? 0 : parse_types(types, o);
}

/* ---- one call ------------------------------------------------------------------------------- */

static void report(struct run *run, uint64_t index, const char *strategy, const struct test_call *test,
                   const char *what)
{
    char line[256];
    problem_describe(&test->checked, line, sizeof(line));
    printf("FAIL %s\n     %s\n     again: tests/random_calls --seed %" PRIu64 " --index %" PRIu64
           " --strategy %s",
           what, line, run->options.seed, index, strategy);
    printf(run->options.work_limit ? " --work %" PRId64 "\n" : "\n", run->options.work_limit);
    ++run->failed;
}

/* Largest error of the plain pipeline in the same type; 0 where that says nothing. */
static double naive_error(const struct test_call *test, const struct expected *expected)
{
    const clattn_problem *p = &test->checked.p;
    size_t n = (size_t)(p->batch * p->query_heads * test->call.query_len * p->head_dim_v);
    double *out = malloc((n + 1) * sizeof(*out)), worst = 0;
    for (size_t i = 0; out && i < n; ++i) {
        out[i] = expected->detail.out[i]; /* for rows that do not exist */
    }
    if (out) {
        naive_forward(test, NAIVE_STORAGE, out, NULL);
    }
    for (size_t i = 0; out && i < n; ++i) {
        double error = fabs(out[i] - expected->detail.out[i]);
        worst = isfinite(error) && error > worst ? error : worst;
    }
    free(out);
    return worst;
}

static void count(struct run *run, const struct test_call *test, const struct verdict *verdict,
                  double plain_error)
{
    struct figures *f = &run->figures[test->problem.type];
    ++run->passed;
    ++f->calls;
    f->c_out = fmax(f->c_out, verdict->c_out);
    f->c_lse = fmax(f->c_lse, verdict->c_lse);
    f->c_weights = fmax(f->c_weights, verdict->c_weights);
    if (plain_error > 0) {
        double r = verdict->out_error / plain_error;
        f->worst_r = fmax(f->worst_r, r);
        f->sum_r += r;
        ++f->r_calls;
    }
}

static void compare(struct run *run, uint64_t index, const char *strategy, const struct test_call *test,
                    const struct expected *expected, uint64_t inputs, double plain_error)
{
    struct verdict verdict;
    char text[400];
    tolerance_check(test, expected, &verdict);
    if (verdict.wrong) {
        snprintf(text, sizeof(text), "%" PRId64 " elements; %s", verdict.wrong, verdict.first);
        report(run, index, strategy, test, text);
    } else if (test_call_touched(test)) {
        report(run, index, strategy, test, "wrote between the elements of an output");
    } else if (test_call_input_hash(test) != inputs) {
        report(run, index, strategy, test, "changed an input");
    } else {
        count(run, test, &verdict, plain_error);
    }
}

static void run_strategy(struct run *run, uint64_t index, const char *strategy, struct test_call *test,
                         const struct expected *expected, double plain_error)
{
    char text[600];
    test->problem.strategy = strcmp(strategy, "auto") == 0 ? NULL : strategy;
    test_call_reset_outputs(test);
    uint64_t inputs = test_call_input_hash(test);
    clattn_status status = index / TYPES % 2
                               ? device_call_run(run->context, test, NULL)
                               : clattn_forward_host(run->context, &test->problem, &test->tensors);
    if (status == CLATTN_UNSUPPORTED && test->problem.strategy) {
        ++run->declined;
    } else if (status != CLATTN_OK) {
        snprintf(text, sizeof(text), "%s: %s", clattn_status_name(status), clattn_last_error());
        report(run, index, strategy, test, text);
    } else {
        compare(run, index, strategy, test, expected, inputs, plain_error);
    }
}

static void run_index(struct run *run, uint64_t index)
{
    const struct options *o = &run->options;
    struct random_call_options what = { o->types[index % (uint64_t)o->n_types], o->work_limit };
    struct test_call test;
    struct expected expected = { { 0 } };
    enum value_family family;
    if (random_call_create(&test, o->seed, index, &what, &family) != CLATTN_OK) {
        report(run, index, "none", &test, clattn_last_error());
    } else if (expected_create(&expected, &test) != CLATTN_OK) {
        report(run, index, "reference", &test, "out of memory");
    } else {
        ++run->families[family];
        double plain_error = family == VALUES_NOT_FINITE ? 0 : naive_error(&test, &expected);
        for (int s = 0; s < o->n_strategies; ++s) {
            run_strategy(run, index, o->strategies[s], &test, &expected, plain_error);
        }
    }
    expected_free(&expected);
    test_call_free(&test);
}

/* ---- the whole run -------------------------------------------------------------------------- */

static int has_fp64(clattn_context *context)
{
    cl_device_fp_config config = 0;
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(config), &config,
                    NULL);
    return config != 0;
}

static void drop_float64(struct run *run)
{
    struct options *o = &run->options;
    int kept = 0;
    for (int i = 0; i < o->n_types; ++i) {
        if (o->types[i] != CLATTN_FLOAT64) {
            o->types[kept++] = o->types[i];
        }
    }
    if (kept < o->n_types) {
        printf("random_calls: the device has no fp64, float64 is left out\n");
    }
    o->n_types = kept;
}

static void print_figures(const struct run *run)
{
    printf("%-9s %7s  %-23s  %s\n", "", "calls", "C: out, lse, weights", "R: mean, largest");
    for (int type = CLATTN_FLOAT32; type < TYPES; ++type) {
        const struct figures *f = &run->figures[type];
        if (f->calls) {
            printf("%-9s %7" PRId64 "  %-7.3f %-7.3f %-7.3f  %.2f %.2f\n", clattn_type_name((clattn_type)type),
                   f->calls, f->c_out, f->c_lse, f->c_weights,
                   f->r_calls ? f->sum_r / (double)f->r_calls : 0, f->worst_r);
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
        fprintf(stderr, "usage: random_calls [--seed N] [--count N] [--index N] [--strategy S,S...] "
                        "[--type T,T...] [--seconds N] [--work N] [--device D]\n");
        return 2;
    }
    if (clattn_context_open(run.options.device, NULL, &run.context) != CLATTN_OK) {
        fprintf(stderr, "random_calls: %s\n", clattn_last_error());
        return 1;
    }
    if (!has_fp64(run.context)) {
        drop_float64(&run);
    }
    printf("seed %" PRIu64 ", %" PRIu64 " problems\n", run.options.seed, run.options.count);
    run.started_at = time(NULL);
    uint64_t done = 0;
    for (; done < run.options.count && run.options.n_types > 0; ++done) {
        if (run.options.seconds > 0 && difftime(time(NULL), run.started_at) > run.options.seconds) {
            break;
        }
        run_index(&run, run.options.first + done);
    }
    run.skipped = (int64_t)(run.options.count - done) * run.options.n_strategies;
    print_figures(&run);
    clattn_context_destroy(run.context);
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", run.passed, run.failed,
           run.skipped);
    return run.failed || !run.passed;
}
