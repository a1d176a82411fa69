/* usage: case_calls [--cases FOLDER] [--case NAME] [--strategy S,S...] [--type T,T...]
 *                   [--choose all|cover|few] [--digests FILE] [--device D]
 *
 * The cases of tests/cases (FOLDER; else below srcdir) with inputs rounded to each type: float16 and bfloat16, or
 * those that are asked for. Outputs are judged as random_calls judges its own, by the error bound and by R
 * (support/ratio.h); goldens are not read, check.py holds what solve_cases computes against them. A failure
 * prints the command that repeats it. --choose cover: the cases that stand for all (support/case_cover.h), where a
 * strategy compiles for each; few: fewer of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_call.h"
#include "support/case_cover.h"
#include "support/case_list.h"
#include "support/judge.h"

#define PATH_BYTES 4096

struct run {
    const char *cases, *only, *digests; /* only: NULL for all */
    enum case_choice choice;
    struct device_options options;
    struct judge judge;
};

static int parse(int argc, char **argv, struct run *run)
{
    static char folder[PATH_BYTES];
    const char *srcdir = getenv("srcdir"), *choose = "all";
    const struct device_option more[] = { { "cases", &run->cases },
                                          { "case", &run->only },
                                          { "choose", &choose },
                                          { "digests", &run->digests },
                                          { NULL, NULL } };
    snprintf(folder, sizeof(folder), "%s/tests/cases", srcdir && *srcdir ? srcdir : ".");
    run->cases = folder;
    if (device_options_parse_more(argc, argv, "plain,staged", "float16,bfloat16", more, &run->options) != 0) {
        return -1;
    }
    return case_choice_named(choose, &run->choice);
}

/* 0, or -1 and a failure counted. */
static int create(struct run *run, const char *name, clattn_type type, struct test_call *test)
{
    char folder[PATH_BYTES];
    struct failure failure;
    snprintf(folder, sizeof(folder), "%s/%s", run->cases, name);
    if (case_call_create(test, folder, type, &failure) != 0) {
        printf("FAIL %s: %s\n", name, failure.text);
        ++run->judge.failed;
        return -1;
    }
    return 0;
}

/* With all strategies, or with number `only` alone (-1: all), which may not take it: then 0. */
static int run_case(struct run *run, const char *name, clattn_type type, int only)
{
    int served = 1;
    char again[PATH_BYTES];
    struct test_call test;
    snprintf(again, sizeof(again), "tests/case_calls --case %s", name);
    if (create(run, name, type, &test) == 0) {
        const struct judged_call call = { &test, name, again, 1, 0 };
        if (only >= 0) {
            served = judge_serve(&run->judge, &call, only);
        } else {
            judge_call(&run->judge, &call);
        }
        test_call_free(&test);
    }
    return served;
}

/* Bit t of chosen[i]: case i is to run in type t of the options. */
static void choose(struct run *run, char **names, int n, unsigned char *chosen)
{
    uint64_t *traits = calloc((size_t)n + 1, sizeof(*traits));
    struct test_call test;
    for (int i = 0; i < n; ++i) {
        chosen[i] = !run->only || strcmp(run->only, names[i]) == 0 ? (1 << OPTIONS_TYPES_MAX) - 1 : 0;
        if (run->choice != CASES_ALL && chosen[i] && create(run, names[i], CLATTN_FLOAT16, &test) == 0) {
            traits[i] = case_traits(&test);
            test_call_free(&test);
        }
    }
    if (run->choice != CASES_ALL) {
        case_cover(traits, n, run->options.n_types, run->choice, chosen);
    }
    free(traits);
}

/* What was not chosen, where a strategy declined all the rest. */
static void look_further(struct run *run, char **names, int n, const unsigned char *chosen)
{
    int s = 0;
    clattn_type type = CLATTN_TYPE_NONE;
    while (!run->judge.one_call && judge_unserved(&run->judge, &s, &type)) {
        int t = 0;
        while (run->options.types[t] != type) {
            ++t;
        }
        for (int i = 0; i < n && (chosen[i] >> t & 1 || !run_case(run, names[i], type, s)); ++i) {
        }
    }
}

/* Returns how many there are; -1 where the folder cannot be read. */
static int run_all(struct run *run)
{
    char **names;
    const int n = case_list_attention(run->cases, NULL, &names);
    if (n < 0) {
        return -1;
    }
    unsigned char *chosen = calloc((size_t)n + 1, 1);
    choose(run, names, n, chosen);
    for (int i = 0; i < n; ++i) {
        for (int t = 0; t < run->options.n_types; ++t) {
            if (chosen[i] >> t & 1) {
                run_case(run, names[i], run->options.types[t], -1);
            }
        }
    }
    look_further(run, names, n, chosen);
    for (int i = 0; i < n; ++i) {
        free(names[i]);
    }
    free(chosen);
    free(names);
    return n;
}

int main(int argc, char **argv)
{
    static struct run run;
    if (parse(argc, argv, &run) != 0) {
        return device_options_usage("case_calls");
    }
    run.judge.options = &run.options;
    run.judge.one_call = run.only != NULL;
    run.judge.context = device_options_open(&run.options);
    if (!run.judge.context || judge_write_digests(&run.judge, run.digests) != 0) {
        return 1;
    }
    if (run_all(&run) < 0) {
        perror(run.cases);
    }
    judge_print(&run.judge);
    printf("declined by the strategy: %lld\n", (long long)judge_declined(&run.judge));
    clattn_context_destroy(run.judge.context);
    return judge_end(&run.judge);
}
