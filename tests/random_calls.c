/* usage: random_calls [--seed N] [--count N] [--index N] [--strategy S,S...] [--type T,T...]
 *                     [--seconds N] [--work N] [--same N] [--mixed 0|1] [--codes 0|1]
 *                     [--with FEATURE,FEATURE...] [--code TEXT] [--digests FILE] [--device D]
 *
 * Whole calls against the reference by the error bound of support/tolerance.h, over random problems. Half
 * of them take the blocking call, half plan and enqueue. Prints the seed, the largest C that was needed for
 * each type and strategy, R (the largest error over that of the plain pipeline in the same type,
 * support/ratio.h) and counts; a failure prints the command that repeats it. Environment:
 * CLATTN_TEST_SEED, CLATTN_TEST_COUNT, CLATTN_TEST_STRATEGIES stand in for the options. --seconds ends
 * early; what was left counts as skipped. Where a strategy declined all calls of a type that it takes, more
 * problems are made until it takes one.
 * --digests: writes a hash of each call's outputs, to see that two versions of the library agree to the last bit.
 * --mixed 1: keys, values and outputs have types of their own, and R, which is of one type, is not asked for.
 * --codes 1: that, and keys and values are of 8-bit or block types, or in rings.
 * --with: each problem has these features (support/random_features.c).
 * --code: each has this text (support/user_codes.c); any: one or another; grammar: random ones, a text each.
 * --same: so many calls in a row need the same programs, where a strategy compiles for each problem. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program/gemm.h"
#include "support/judge.h"
#include "support/random_call.h"
#include "support/random_features.h"
#include "support/user_codes.h"

#define FURTHER 1000 /* problems of a type that are offered to a strategy which took none */

struct options {
    struct device_options shared;
    uint64_t seed, count, first;
    double seconds;
    int64_t work_limit;
    uint64_t same;
    int mixed, codes;
    const char *digests, *with, *code;
};

struct run {
    struct options options;
    struct judge judge;
    int64_t families[VALUE_FAMILIES];
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
    const char *same = "1", *mixed = "0", *codes = "0";
    o->digests = o->with = o->code = NULL;
    const struct device_option more[] = { { "seed", &seed },       { "count", &count },  { "index", &index },
                                          { "seconds", &seconds }, { "work", &work },    { "same", &same },
                                          { "mixed", &mixed },     { "codes", &codes },  { "digests", &o->digests },
                                          { "with", &o->with },    { "code", &o->code }, { NULL, NULL } };
    const char *strategies = gemm_is_built() ? "plain,staged,staged/clblast" : "plain,staged";
    if (device_options_parse_more(argc, argv, strategies, NULL, more, &o->shared) != 0) {
        return -1;
    }
    o->seed = strtoull(seed, NULL, 0);
    o->first = index ? strtoull(index, NULL, 0) : 0;
    o->count = index ? 1 : strtoull(count, NULL, 0);
    o->seconds = strtod(seconds, NULL);
    o->work_limit = strtoll(work, NULL, 0);
    o->same = strtoull(same, NULL, 0);
    o->codes = strcmp(codes, "0") != 0;
    o->mixed = o->codes || strcmp(mixed, "0") != 0;
    return o->same > 0 && random_features_known(o->with) == 0 && test_code_known(o->code) == 0 ? 0 : -1;
}

/* ---- one call ------------------------------------------------------------------------------- */

/* The command that repeats it. */
static void write_again(const struct options *o, uint64_t index, char *text, size_t bytes)
{
    char more[200] = "";
    if (o->work_limit) {
        snprintf(more, sizeof(more), " --work %" PRId64, o->work_limit);
    }
    if (o->same > 1) {
        snprintf(more + strlen(more), sizeof(more) - strlen(more), " --same %" PRIu64, o->same);
    }
    if (o->with) {
        snprintf(more + strlen(more), sizeof(more) - strlen(more), " --with %s", o->with);
    }
    if (o->code) {
        snprintf(more + strlen(more), sizeof(more) - strlen(more), " --code %s", o->code);
    }
    snprintf(text, bytes, "tests/random_calls --seed %" PRIu64 " --index %" PRIu64 "%s%s", o->seed, index, more,
             o->codes   ? " --codes 1"
             : o->mixed ? " --mixed 1"
                        : "");
}

/* With all strategies, or with number `only` alone (-1: all), which may not take it: then 0. */
static int run_index(struct run *run, uint64_t index, int only)
{
    int served = 1;
    const struct options *o = &run->options;
    const struct device_options *shared = &o->shared;
    const int blocks = index / JUDGE_TYPES % 2 == 0;
    struct random_call_options what = { .type = shared->types[index / o->same % (uint64_t)shared->n_types],
                                        .work_limit = o->work_limit,
                                        .calls_a_program = o->same,
                                        .mixed = o->mixed,
                                        .on_device = !blocks,
                                        .codes = o->codes,
                                        .with = o->with,
                                        .code = o->code };
    struct test_call test;
    enum value_family family;
    char name[24], again[300];
    snprintf(name, sizeof(name), "%" PRIu64, index);
    write_again(o, index, again, sizeof(again));
    const clattn_status status = random_call_create(&test, o->seed, index, &what, &family);
    const struct judged_call call = { &test, name, again, family < VALUES_NOT_FINITE && !o->mixed && !o->code, blocks };
    if (status != CLATTN_OK) {
        judge_report(&run->judge, &call, "none", clattn_last_error());
    } else if (only >= 0) {
        served = judge_serve(&run->judge, &call, only);
    } else {
        judge_call(&run->judge, &call);
    }
    run->families[family] += status == CLATTN_OK && served;
    test_call_free(&test);
    return served;
}

/* Problems beyond the run's, of the type, until the strategy takes one. */
static void look_further(struct run *run, int s, clattn_type type)
{
    const struct options *o = &run->options;
    const uint64_t n_types = (uint64_t)o->shared.n_types, after = (o->first + o->count) / o->same + 1;
    for (uint64_t program = after; program < after + FURTHER * n_types; ++program) {
        if (o->shared.types[program % n_types] == type && run_index(run, program * o->same, s)) {
            return;
        }
    }
}

/* ---- the whole run -------------------------------------------------------------------------- */

static void print_families(const struct run *run)
{
    printf("values:");
    for (int family = 0; family < VALUE_FAMILIES; ++family) {
        printf(" %s %" PRId64, value_family_name((enum value_family)family), run->families[family]);
    }
    printf("; declined by the strategy: %" PRId64 "\n", judge_declined(&run->judge));
}

int main(int argc, char **argv)
{
    struct run run;
    memset(&run, 0, sizeof(run));
    if (parse(argc, argv, &run.options) != 0) {
        return device_options_usage("random_calls");
    }
    run.judge.options = &run.options.shared;
    run.judge.one_call = run.options.count == 1;
    run.judge.context = device_options_open(&run.options.shared);
    if (!run.judge.context || judge_write_digests(&run.judge, run.options.digests) != 0) {
        return 1;
    }
    printf("seed %" PRIu64 ", %" PRIu64 " problems\n", run.options.seed, run.options.count);
    run.started_at = time(NULL);
    uint64_t done = 0;
    for (; done < run.options.count && run.options.shared.n_types > 0; ++done) {
        if (run.options.seconds > 0 && difftime(time(NULL), run.started_at) > run.options.seconds) {
            break;
        }
        run_index(&run, run.options.first + done, -1);
    }
    int s = 0;
    clattn_type type = CLATTN_TYPE_NONE;
    while (!run.judge.one_call && judge_unserved(&run.judge, &s, &type)) {
        look_further(&run, s, type);
    }
    run.judge.skipped = (int64_t)(run.options.count - done) * run.options.shared.n_strategies;
    judge_print(&run.judge);
    print_families(&run);
    clattn_context_destroy(run.judge.context);
    return judge_end(&run.judge);
}
