/* usage: random_key_sums [--seed N] [--count N] [--index N] [--strategy S,S...] [--type T,T...] [--device D]
 *
 * Sums of weights and largest logits against the reference by the error bound of docs/numbers.md, over random problems
 * and layouts, every other call of last rows, every third of codes, every sixth with a NaN. Prints the largest C that
 * was needed; a failure prints the command that repeats it. CLATTN_TEST_SEED and CLATTN_TEST_KEY_SUMS_COUNT stand in
 * for the options. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "clattn_key_sums.h"
#include "reference/reference_key_sums.h"
#include "reference/sum_bound.h"
#include "support/device_options.h"
#include "support/random_call.h"
#include "support/tolerance.h"

#define GAP 3         /* elements of poison behind each head's sums */
#define FAR_LSE 65536 /* beyond it a weight has no more than 8 bits */

struct run {
    struct device_options shared;
    clattn_context *context;
    uint64_t seed, count, first;
    int64_t passed, failed;
    double c[OPTIONS_STRATEGIES_MAX][2];
    int64_t taken[OPTIONS_STRATEGIES_MAX];
};

/* A call, what it leaves, and what it should. */
struct sums_call {
    struct test_call test;
    enum value_family family;
    clattn_key_sums_problem problem;
    clattn_host_key_sums tensors;
    clattn_type type; /* of both outputs */
    int64_t planes, keys, elements[2];
    unsigned char *data[2];
    struct key_sums_detail expected;
    double roundings;
    int is_far; /* some lse is so large that its rounding decides weights: they are not judged */
};

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int parse(int argc, char **argv, struct run *run)
{
    const char *seed = environment("CLATTN_TEST_SEED", "1"), *count = environment("CLATTN_TEST_KEY_SUMS_COUNT", "24");
    const char *index = NULL;
    const struct device_option more[] = { { "seed", &seed }, { "count", &count }, { "index", &index }, { NULL, NULL } };
    if (device_options_parse_more(argc, argv, "plain,fused_simd", NULL, more, &run->shared) != 0) {
        return -1;
    }
    run->seed = strtoull(seed, NULL, 0);
    run->first = index ? strtoull(index, NULL, 0) : 0;
    run->count = index ? 1 : strtoull(count, NULL, 0);
    return 0;
}

static void report(struct run *run, const struct sums_call *call, uint64_t index, const char *strategy,
                   const char *what)
{
    char line[256];
    problem_describe(&call->test.checked.any, line, sizeof(line));
    printf("FAIL %s\n     %s; outputs 0x%x, last rows %" PRId64 ", %s\n"
           "     again: tests/random_key_sums --seed %" PRIu64 " --index %" PRIu64 " --strategy %s --type %s\n",
           what, line, call->problem.outputs, call->problem.last_rows, value_family_name(call->family), run->seed,
           index, strategy, clattn_type_name(call->test.problem.type));
    ++run->failed;
}

/* ---- the call ------------------------------------------------------------------------------------ */

static void place(struct sums_call *call, int output, int64_t columns, clattn_host_tensor *tensor)
{
    const int64_t heads = call->test.problem.query_heads, pitch = 2 * columns + GAP;
    call->elements[output] = call->planes * pitch + 1;
    call->data[output] = malloc((size_t)call->elements[output] * clattn_type_size(call->type));
    tensor->data = call->data[output];
    tensor->offset = 1;
    tensor->stride[0] = heads * pitch;
    tensor->stride[1] = pitch;
    tensor->stride[3] = 2;
}

/* The forward's lse, by the reference, whose weights nobody asks for. */
static clattn_status find_lse(struct sums_call *call)
{
    struct test_call *test = &call->test;
    test->problem.weights = CLATTN_WEIGHTS_NONE;
    test->tensors.weights.data = NULL;
    if (!test_call_has(test, TENSOR_LSE)) {
        test->problem.features |= CLATTN_WITH_LSE;
        test_call_place(test, TENSOR_LSE, NULL);
    }
    clattn_status status = test_call_validate(test);
    if (status == CLATTN_OK) {
        status = clattn_reference_forward(&test->problem, &test->values, &test->tensors);
    }
    for (int64_t at = 0; at < test->arrays[TENSOR_LSE].count && status == CLATTN_OK; ++at) {
        const double lse = type_load(CLATTN_FLOAT32, test->arrays[TENSOR_LSE].data, at);
        call->is_far |= test->arrays[TENSOR_LSE].reached[at] && fabs(lse) > FAR_LSE && !isinf(lse);
    }
    return status;
}

/* A NaN in a query, whose pairs that are allowed make it of sums and of the largest logit. */
static void add_nan(struct test_call *test, uint64_t index)
{
    struct test_array *query = &test->arrays[TENSOR_QUERY];
    int64_t at = query->count > 0 ? (int64_t)(index * 7919 % (uint64_t)query->count) : 0;
    while (at < query->count && !query->reached[at]) {
        ++at;
    }
    if (at < query->count) {
        type_store(test->problem.type, query->data, at, (double)NAN);
    }
}

static clattn_status expect(struct sums_call *call)
{
    struct key_sums_problem problem;
    struct call checked;
    clattn_status status = any_problem_init(&problem.attention.any, &operation_key_sums, &call->problem);
    if (status == CLATTN_OK) {
        status = any_call_from_host(&problem.attention.any,
                                    GIVEN(&call->test.values, &call->test.tensors, &call->tensors), &checked.operands);
    }
    const size_t planes = (size_t)call->planes + 1, keys = (size_t)call->keys + 1;
    call->expected = (struct key_sums_detail){ calloc(planes * keys, sizeof(double)),
                                               calloc(planes * keys, sizeof(double)), calloc(planes, sizeof(double)),
                                               calloc(planes, sizeof(double)) };
    if (status == CLATTN_OK) {
        status = reference_key_sums_detail(&problem, &checked, &call->expected);
        problem_release(&problem.attention.any);
    }
    return status;
}

static clattn_status create(struct run *run, uint64_t index, struct sums_call *call)
{
    const struct random_call_options what = { .type = run->shared.types[index % (uint64_t)run->shared.n_types],
                                              .work_limit = 200000,
                                              .codes = index % 3 == 2,
                                              .mixed = index % 4 == 0 };
    const clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
    const clattn_host_key_sums none = CLATTN_HOST_KEY_SUMS_INIT;
    memset(call, 0, sizeof(*call));
    clattn_status status = random_call_create(&call->test, run->seed, index, &what, &call->family);
    if (status == CLATTN_OK && index % 6 == 5) {
        add_nan(&call->test, index);
    }
    if (status == CLATTN_OK) {
        status = find_lse(call);
    }
    call->problem = problem;
    call->tensors = none;
    call->problem.forward = &call->test.problem;
    call->problem.outputs = index % 5 == 3 ? CLATTN_KEY_SUMS : index % 5 == 4 ? CLATTN_MAX_LOGIT : 3;
    call->problem.last_rows = index % 2 && call->problem.outputs & CLATTN_KEY_SUMS ? 1 + (int64_t)(index % 7) : 0;
    call->type = call->test.problem.type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    call->planes = call->test.problem.batch * call->test.problem.query_heads;
    call->keys = call->test.values.key_len >= 0 ? call->test.values.key_len : call->test.problem.key_len;
    if (call->problem.outputs & CLATTN_KEY_SUMS) {
        place(call, 0, call->keys, &call->tensors.key_sums);
    }
    if (call->problem.outputs & CLATTN_MAX_LOGIT) {
        place(call, 1, 1, &call->tensors.max_logit);
    }
    return status == CLATTN_OK ? expect(call) : status;
}

static void destroy(struct sums_call *call)
{
    test_call_free(&call->test);
    free(call->data[0]);
    free(call->data[1]);
    free(call->expected.sums);
    free(call->expected.sum_units);
    free(call->expected.largest);
    free(call->expected.largest_units);
}

/* ---- what it leaves ------------------------------------------------------------------------------ */

/* How many times the unit an element is off; INFINITY: no rounding makes that of it. */
static double need_of(const struct sums_call *call, double got, double expected, double unit, double terms)
{
    const int is_double = call->type == CLATTN_FLOAT64;
    const double u = is_double ? 0x1p-53 : 0x1p-24, least = 2 * (is_double ? DBL_MIN : (double)FLT_MIN);
    const double whole = u * (unit + sum_bound(terms, call->roundings) * fabs(expected));
    if (isnan(expected) || isinf(expected)) {
        const int is_right = isnan(expected) ? isnan(got) : isinf(got) && (got < 0) == (expected < 0);
        return is_right ? 0 : INFINITY;
    }
    if (call->family == VALUES_ENDS && fabs(expected) > 1e37) { /* logits beyond float32 are finite in effect */
        return 0;
    }
    const double error = fabs(got - expected) - least * (terms + 1);
    return isnan(error) ? INFINITY : error > 0 ? error / whole : 0;
}

/* Elements of one output, whose columns a plane has; others are still poison. */
static double need_of_output(const struct sums_call *call, int output, int64_t columns, const double *expected,
                             const double *units, char *text, size_t text_size)
{
    const int64_t pitch = 2 * columns + GAP, rows = call->test.call.query_len;
    const size_t bytes = clattn_type_size(call->type);
    double most = 0;
    for (int64_t at = 0; call->data[output] && at < call->elements[output]; ++at) {
        const int64_t in_plane = (at - 1) % pitch, plane = (at - 1) / pitch;
        if (at == 0 || in_plane % 2 || in_plane >= 2 * columns) {
            for (size_t byte = 0; byte < bytes; ++byte) {
                if (call->data[output][(size_t)at * bytes + byte] != 0xff) {
                    snprintf(text, text_size, "output %d: wrote between its elements, at %" PRId64, output, at);
                }
            }
            continue;
        }
        const int64_t element = plane * columns + in_plane / 2;
        const double got = type_load(call->type, call->data[output], at);
        const double need = need_of(call, got, expected[element], units[element], output == 0 ? (double)rows : 0);
        if (output == 0 && call->is_far) {
            continue;
        }
        most = fmax(most, need);
        if (need > TOLERANCE_C && !*text) {
            snprintf(text, text_size, "output %d, plane %" PRId64 ", element %" PRId64 ": %.9g, should be %.9g, C %.3g",
                     output, plane, in_plane / 2, got, expected[element], need);
        }
    }
    return most;
}

static clattn_status compute(struct run *run, struct sums_call *call)
{
    clattn_plan *plan;
    for (int output = 0; output < 2; ++output) {
        if (call->data[output]) {
            memset(call->data[output], 0xff, (size_t)call->elements[output] * clattn_type_size(call->type));
        }
    }
    clattn_status status = clattn_key_sums_plan_create(run->context, &call->problem, &plan);
    if (status != CLATTN_OK) {
        return status;
    }
    call->roundings = clattn_plan_sum_roundings(plan);
    clattn_plan_destroy(plan);
    return clattn_key_sums_host(run->context, &call->problem, &call->test.values, &call->test.tensors, &call->tensors);
}

static void run_strategy(struct run *run, struct sums_call *call, uint64_t index, int s)
{
    const char *strategy = run->shared.strategies[s], *label = strategy_label(strategy);
    const uint64_t inputs = test_call_input_hash(&call->test);
    char text[300] = "";
    strategy_set(&call->test.problem, NULL);
    call->problem.strategy = strategy;
    const clattn_status status = compute(run, call);
    if (status == CLATTN_UNSUPPORTED) {
        return;
    }
    if (status != CLATTN_OK) {
        snprintf(text, sizeof(text), "%s: %s", clattn_status_name(status), clattn_last_error());
    } else {
        const double sums =
            need_of_output(call, 0, call->keys, call->expected.sums, call->expected.sum_units, text, sizeof(text));
        const double largest =
            need_of_output(call, 1, 1, call->expected.largest, call->expected.largest_units, text, sizeof(text));
        run->c[s][0] = fmax(run->c[s][0], sums);
        run->c[s][1] = fmax(run->c[s][1], largest);
        if (!*text && test_call_input_hash(&call->test) != inputs) {
            snprintf(text, sizeof(text), "changed an input");
        }
    }
    if (*text) {
        report(run, call, index, label, text);
        return;
    }
    ++run->passed;
    ++run->taken[s];
}

int main(int argc, char **argv)
{
    struct run run;
    memset(&run, 0, sizeof(run));
    if (parse(argc, argv, &run) != 0) {
        return device_options_usage("random_key_sums");
    }
    run.context = device_options_open(&run.shared);
    if (!run.context) {
        return 1;
    }
    for (uint64_t n = 0; n < run.count; ++n) {
        struct sums_call call;
        const clattn_status status = create(&run, run.first + n, &call);
        if (status != CLATTN_OK) {
            report(&run, &call, run.first + n, "none", clattn_last_error());
        }
        for (int s = 0; s < run.shared.n_strategies && status == CLATTN_OK; ++s) {
            run_strategy(&run, &call, run.first + n, s);
        }
        destroy(&call);
    }
    for (int s = 0; s < run.shared.n_strategies; ++s) {
        printf("%-10s %" PRId64 " calls, C: sums %.3f, largest %.3f\n", strategy_label(run.shared.strategies[s]),
               run.taken[s], run.c[s][0], run.c[s][1]);
        if (run.count > 1 && run.taken[s] == 0) {
            printf("FAIL %s declined every call: it was not tested\n", strategy_label(run.shared.strategies[s]));
            ++run.failed;
        }
    }
    clattn_context_destroy(run.context);
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", run.passed, run.failed, (int64_t)0);
    return run.failed || !run.passed;
}
