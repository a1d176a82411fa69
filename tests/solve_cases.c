/* usage: solve_cases CASES PRODUCED [--strategy S] [--device D]
 *
 * Computes every case folder of CASES (tests/cases/README.md tells the format) and writes
 * PRODUCED/NAME/out.npy and each other output that the case lists, gradients excepted; check.py judges
 * them. S: a strategy's name, "auto" (the default), or "reference", which needs no device.
 * Exit status: 0 all computed or declined by the strategy that was named, 1 some failed, 2 misuse. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/case_file.h"

#define PATH_BYTES 4096

struct options {
    const char *cases, *produced;
    const char *strategy; /* NULL: the best */
    const char *device;   /* NULL: CLATTN_DEVICE, then the best */
    int reference;
};

static int usage(void)
{
    fprintf(stderr, "usage: solve_cases CASES PRODUCED [--strategy S|auto|reference] [--device D]\n");
    return EXIT_MISUSE;
}

static int parse(int argc, char **argv, struct options *options)
{
    const char **positional[] = { &options->cases, &options->produced };
    int n = 0;
    for (int i = 1; i < argc; ++i) {
        const char **value = strcmp(argv[i], "--strategy") == 0 ? &options->strategy
                             : strcmp(argv[i], "--device") == 0 ? &options->device
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
    return n == 2 ? 0 : -1;
}

static int make_folder(const char *path, struct failure *failure)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
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

/* The same. */
static int solve(const struct options *options, clattn_context *context, const char *name, struct failure *failure)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    snprintf(from, sizeof(from), "%s/%s", options->cases, name);
    snprintf(to, sizeof(to), "%s/%s", options->produced, name);
    struct attention_case c;
    if (case_read(from, &c, failure) != 0) {
        return -1;
    }
    int status = compute(options, context, &c, failure);
    if (status == 0) {
        status = make_folder(to, failure);
    }
    if (status == 0) {
        status = case_write(&c, to, failure);
    }
    case_free(&c);
    return status;
}

static int is_case(const struct options *options, const char *name)
{
    char path[PATH_BYTES];
    struct stat about;
    snprintf(path, sizeof(path), "%s/%s/meta.json", options->cases, name);
    return name[0] != '.' && stat(path, &about) == 0;
}

static int solve_all(const struct options *options, clattn_context *context)
{
    struct dirent **entries;
    int n = scandir(options->cases, &entries, NULL, alphasort), solved = 0, failed = 0, declined = 0;
    if (n < 0) {
        fprintf(stderr, "solve_cases: %s: %s\n", options->cases, strerror(errno));
        return EXIT_MISUSE;
    }
    for (int i = 0; i < n; ++i) {
        struct failure failure;
        if (is_case(options, entries[i]->d_name)) {
            int status = solve(options, context, entries[i]->d_name, &failure);
            solved += status == 0;
            declined += status == 1;
            failed += status < 0;
            if (status < 0) {
                fprintf(stderr, "solve_cases: %s: %s\n", entries[i]->d_name, failure.text);
            }
        }
        free(entries[i]);
    }
    free(entries);
    printf("solve_cases: %d computed, %d not, %d declined\n", solved, failed, declined);
    return failed || !solved ? EXIT_FAILED : EXIT_GOOD;
}

int main(int argc, char **argv)
{
    struct options options = { NULL, NULL, NULL, NULL, 0 };
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
