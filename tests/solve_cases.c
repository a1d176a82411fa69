/* usage: solve_cases CASES PRODUCED [--strategy S] [--device D] [--choose all|cover|rest|few]
 *
 * Computes every case folder of CASES (tests/cases/README.md tells the format) and writes
 * PRODUCED/NAME/out.npy and each other output that the case lists, gradients and sums of weights where the strategy
 * that was named has them; check.py judges them. S: a strategy's name, "auto" (the default), or "reference", which
 * needs no device. One that is named is attention's: other operations' cases it declines. --choose cover, or few: of
 * attention only the cases that stand for all (support/case_cover.h), and those of stored types and rings, of which few
 * has one of each type, where a strategy compiles for each; rest: those that cover leaves.
 * Exit status: 0 all computed or declined by the strategy that was named, 1 some failed, 2 misuse. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../tools/system.h"
#include "base/stored_types.h"
#include "support/case_append.h"
#include "support/case_backward.h"
#include "support/case_call.h"
#include "support/case_cover.h"
#include "support/case_file.h"
#include "support/case_key_sums.h"
#include "support/case_layout.h"
#include "support/case_rotary.h"
#include "support/folder_list.h"

#define PATH_BYTES 4096
#define FIRST_TYPE_TRAIT 40

struct options {
    const char *cases, *produced;
    const char *strategy; /* NULL: the best */
    const char *device;   /* NULL: CLATTN_DEVICE, then the best */
    enum case_choice choice;
    int is_rest; /* those that the choice leaves */
    int reference;
};

static int usage(void)
{
    fprintf(stderr, "usage: solve_cases CASES PRODUCED [--strategy S|auto|reference] [--device D] "
                    "[--choose all|cover|rest|few]\n");
    return EXIT_MISUSE;
}

static int parse(int argc, char **argv, struct options *options)
{
    const char *choose = "all";
    const char **positional[] = { &options->cases, &options->produced };
    int n = 0;
    for (int i = 1; i < argc; ++i) {
        const char **value = strcmp(argv[i], "--strategy") == 0 ? &options->strategy
                             : strcmp(argv[i], "--device") == 0 ? &options->device
                             : strcmp(argv[i], "--choose") == 0 ? &choose
                                                                : NULL;
        if (value && i + 1 < argc) {
            *value = argv[++i];
        } else if (!value && argv[i][0] != '-' && n < 2) {
            *positional[n++] = argv[i];
        } else {
            return -1;
        }
    }
    options->reference = options->strategy && strcmp(options->strategy, "reference") == 0;
    if (options->strategy && (options->reference || strcmp(options->strategy, "auto") == 0)) {
        options->strategy = NULL;
    }
    options->is_rest = strcmp(choose, "rest") == 0;
    return n == 2 ? case_choice_named(options->is_rest ? "cover" : choose, &options->choice) : -1;
}

static int make_folder(const char *path, struct failure *failure)
{
    if (system_make_folder(path) != 0 && errno != EEXIST) {
        return failure_misuse(failure, "%s: %s", path, strerror(errno));
    }
    return 0;
}

/* 0, -1, or 1: the named strategy declines. */
static int compute(const struct options *options, clattn_context *context, struct attention_case *c,
                   struct failure *failure)
{
    c->problem.strategy = options->strategy;
    clattn_status status = options->reference ? clattn_reference_forward(&c->problem, &c->values, &c->tensors)
                                              : clattn_forward_host(context, &c->problem, &c->values, &c->tensors);
    if (status == CLATTN_UNSUPPORTED && options->strategy && !options->reference) {
        return 1;
    }
    if (status != CLATTN_OK) {
        return failure_failed(failure, "%s: %s", clattn_status_name(status), clattn_last_error());
    }
    return 0;
}

/* 0, -1, or 1: the named strategy declines the case of attention. */
static int solve_attention(const struct options *options, clattn_context *context, const char *from, const char *to,
                           struct failure *failure)
{
    struct attention_case c;
    if (case_read(from, &c, failure) != 0) {
        return -1;
    }
    case_leave_values(&c);
    int status = compute(options, context, &c, failure);
    if (status == 0) {
        status = make_folder(to, failure);
    }
    if (status == 0) {
        status = case_write(&c, to, failure);
    }
    if (status == 0 && backward_case_is(&c)) {
        status = backward_case_solve(options->reference ? NULL : context, from, to, &c, failure);
    }
    if (status == 0 && key_sums_case_is(&c)) {
        status = key_sums_case_solve(options->reference ? NULL : context, to, &c, failure);
    }
    case_free(&c);
    return status;
}

/* Operations beside attention, by meta.op. */
static const struct {
    const char *op;
    int (*solve)(const struct case_run *run, struct failure *failure);
} operations[] = {
    { "rotary", case_rotary_solve },
    { "append", case_append_solve },
};

/* 0, -1, or 1: the named strategy declines the case. */
static int solve(const struct options *options, clattn_context *context, const char *name, struct failure *failure)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    snprintf(from, sizeof(from), "%s/%s", options->cases, name);
    snprintf(to, sizeof(to), "%s/%s", options->produced, name);
    struct case_run run = { options->reference ? NULL : context, from, to, NULL };
    if (case_meta_read(from, &run.meta, failure) != 0) {
        return -1;
    }
    const char *op = meta_text(meta_field(run.meta, NULL, "op"));
    size_t i = 0;
    while (i < sizeof(operations) / sizeof(operations[0]) && strcmp(operations[i].op, op) != 0) {
        ++i;
    }
    const int is_attention = i == sizeof(operations) / sizeof(operations[0]);
    const int status = is_attention        ? solve_attention(options, context, from, to, failure)
                       : options->strategy ? 1
                                           : operations[i].solve(&run, failure);
    cJSON_Delete(run.meta);
    return status;
}

static int is_case(const struct options *options, const char *name)
{
    char path[PATH_BYTES];
    struct stat about;
    snprintf(path, sizeof(path), "%s/%s/meta.json", options->cases, name);
    return name[0] != '.' && stat(path, &about) == 0;
}

/* Every case of keys and values in stored types, and of rings, is by itself: case_traits does not tell them. */
static int is_by_itself(const clattn_problem *problem)
{
    const clattn_type types[2] = { problem->key_type, problem->value_type };
    int floats = 0;
    for (int i = 0; i < 2; ++i) {
        floats += types[i] == CLATTN_TYPE_NONE || type_is_float(types[i]);
    }
    return floats < 2 || problem->ring > 0;
}

/* Traits of those by themselves where few are to stand for all: one of each type, in a ring and in pages. Bits that
 * case_traits has no use for. */
static uint64_t traits_by_itself(const struct options *options, const clattn_problem *p)
{
    if (options->choice != CASES_FEW) {
        return 0;
    }
    return (uint64_t)1 << (FIRST_TYPE_TRAIT + (int)p->key_type) |
           (uint64_t)1 << (FIRST_TYPE_TRAIT + (int)p->value_type) | (uint64_t)(p->ring > 0) << (FIRST_TYPE_TRAIT - 1) |
           (uint64_t)(p->page_size > 0) << (FIRST_TYPE_TRAIT - 2);
}

/* What stands for a case in a cover; 0: nothing can, it is to run. */
static uint64_t traits_of(const struct options *options, const char *name)
{
    char folder[PATH_BYTES];
    struct failure failure;
    struct attention_case c;
    struct test_call test;
    uint64_t traits = 0;
    snprintf(folder, sizeof(folder), "%s/%s", options->cases, name);
    if (case_read(folder, &c, &failure) != 0) {
        return 0; /* another operation, or what solve() will complain of */
    }
    if (is_by_itself(&c.problem)) {
        traits = traits_by_itself(options, &c.problem);
    } else if (case_call_create(&test, folder, c.problem.type, &failure) == 0) {
        traits = case_traits(&test);
        test_call_free(&test);
    }
    case_free(&c);
    return traits;
}

/* chosen[i]: case i is to be computed. */
static void choose(const struct options *options, char **names, int n, unsigned char *chosen)
{
    uint64_t *traits = calloc((size_t)n + 1, sizeof(*traits));
    for (int i = 0; options->choice != CASES_ALL && i < n; ++i) {
        traits[i] = is_case(options, names[i]) ? traits_of(options, names[i]) : 0;
    }
    case_cover(traits, n, 1, options->choice, chosen);
    for (int i = 0; i < n; ++i) {
        const int is_chosen = chosen[i] || traits[i] == 0;
        chosen[i] = is_chosen != options->is_rest && is_case(options, names[i]);
    }
    free(traits);
}

static int solve_all(const struct options *options, clattn_context *context)
{
    char **names;
    int n = folder_list(options->cases, &names), solved = 0, failed = 0, declined = 0;
    if (n < 0) {
        fprintf(stderr, "solve_cases: %s: %s\n", options->cases, strerror(errno));
        return EXIT_MISUSE;
    }
    unsigned char *chosen = calloc((size_t)n + 1, 1);
    choose(options, names, n, chosen);
    for (int i = 0; i < n; ++i) {
        struct failure failure;
        if (chosen[i]) {
            int status = solve(options, context, names[i], &failure);
            solved += status == 0;
            declined += status == 1;
            failed += status < 0;
            if (status < 0) {
                fprintf(stderr, "solve_cases: %s: %s\n", names[i], failure.text);
            }
        }
        free(names[i]);
    }
    free(names);
    free(chosen);
    printf("solve_cases: %d computed, %d not, %d declined\n", solved, failed, declined);
    return failed || !(solved || declined) ? EXIT_FAILED : EXIT_GOOD;
}

int main(int argc, char **argv)
{
    struct options options = { NULL, NULL, NULL, NULL, CASES_ALL, 0, 0 };
    struct failure failure;
    if (parse(argc, argv, &options) != 0) {
        return usage();
    }
    if (make_folder(options.produced, &failure) != 0) {
        return failure_report(&failure, "solve_cases");
    }
    clattn_context *context = NULL;
    if (!options.reference && clattn_context_open(options.device, NULL, &context) != CLATTN_OK) {
        fprintf(stderr, "solve_cases: %s\n", clattn_last_error());
        return EXIT_FAILED;
    }
    int status = solve_all(&options, context);
    clattn_context_destroy(context);
    return status;
}
