#define _XOPEN_SOURCE 700
#include "bench_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "labels.h"
#include "problem_options.h"

#define FILE_MAX_BYTES (1 << 20)
#define WORDS 10 /* NAME B HQ HKV LQ LK D DV CAUSAL MASK */

/* bench/shapes.txt, as it was when the command was built. */
static const char built_in[] =
#include "tools/bench_shapes_text.h"
    ;

const char *bench_causal_name(const clattn_problem *problem)
{
    return option_words(OPTION_BENCH_CAUSAL)[problem->causal ? problem->alignment : 0];
}

const char *bench_mask_name(const clattn_problem *problem)
{
    return problem->features & CLATTN_WITH_MASK ? "bool" : problem->bias_type != CLATTN_TYPE_NONE ? "float" : "none";
}

/* A shape from options, whoever filled them. */
static int read_shape(const struct options *options, const char *name, struct bench_shape *shape,
                      struct failure *failure)
{
    const clattn_problem fresh = CLATTN_PROBLEM_INIT;
    struct options all = *options;
    int chosen;
    shape->problem = fresh;
    snprintf(shape->name, sizeof shape->name, "%s", name);
    utf8_clean_in_place(shape->name, "");
    if (option_choice(options, OPTION_BENCH_CAUSAL, &chosen, failure) != 0 ||
        option_choice(options, OPTION_BENCH_ALIGN, &chosen, failure) != 0) {
        return -1;
    }
    all.value[OPTION_CAUSAL] = options->value[OPTION_BENCH_CAUSAL];
    all.value[OPTION_ALIGN] = options->value[OPTION_BENCH_ALIGN];
    all.value[OPTION_WITH_KEY_LENGTHS] = options->value[OPTION_BENCH_KEY_LENGTHS];
    return problem_without_data_read(&all, &shape->problem, failure);
}

/* Splits a line in place; returns the number of its words, WORDS + 1 for too many. */
static int split(char *line, char *words[WORDS])
{
    int n = 0;
    line[strcspn(line, "#")] = 0;
    for (char *word = strtok(line, " \t\r"); word; word = strtok(NULL, " \t\r")) {
        if (n == WORDS) {
            return WORDS + 1;
        }
        words[n++] = word;
    }
    return n;
}

static int read_line(const struct options *options, char *line, const char *place, struct bench_shapes *shapes,
                     struct failure *failure)
{
    char *words[WORDS], text[256];
    struct options of_line = *options;
    struct failure detail;
    struct bench_shape *larger;
    int n = split(line, words);
    if (n == 0) {
        return 0;
    }
    if (n != WORDS) {
        return failure_misuse(failure, "%s: must be NAME B HQ HKV LQ LK D DV CAUSAL MASK", place);
    }
    snprintf(text, sizeof text, "%s,%s,%s,%s,%s,%s,%s", words[1], words[2], words[3], words[4], words[5], words[6],
             words[7]);
    of_line.value[OPTION_SHAPE] = text;
    of_line.value[OPTION_BENCH_CAUSAL] = words[8];
    of_line.value[OPTION_MASK_KIND] = words[9];
    if (strcmp(words[8], "none") != 0) {
        of_line.value[OPTION_BENCH_ALIGN] = NULL;
    }
    larger = realloc(shapes->shape, (shapes->n + 1) * sizeof *larger);
    if (!larger) {
        return failure_failed(failure, "out of memory");
    }
    shapes->shape = larger;
    if (read_shape(&of_line, words[0], &larger[shapes->n], &detail) != 0) {
        return failure_misuse(failure, "%s: %.1900s", place, detail.text);
    }
    shapes->n++;
    return 0;
}

/* The lines of a text, which is cut into pieces. */
static int read_lines(const struct options *options, char *text, const char *path, struct bench_shapes *shapes,
                      struct failure *failure)
{
    int number = 1;
    for (char *line = text, *next; line; line = next, number++) {
        char place[512];
        next = strchr(line, '\n');
        if (next) {
            *next++ = 0;
        }
        snprintf(place, sizeof place, "file %.400s line %d", path, number);
        if (read_line(options, line, place, shapes, failure) != 0) {
            return -1;
        }
    }
    if (shapes->n == 0) {
        return failure_misuse(failure, "file %s: has no shapes", path);
    }
    return 0;
}

/* The caller frees the text. */
static char *read_text(const char *path, struct failure *failure)
{
    uint64_t size;
    int descriptor;
    char *text = NULL;
    if (file_open(path, &descriptor, &size, failure) != 0) {
        return NULL;
    }
    if (size > FILE_MAX_BYTES) {
        failure_misuse(failure, "file %s: %llu bytes: must be at most %d", path, (unsigned long long)size,
                       FILE_MAX_BYTES);
    } else if (!(text = calloc(size + 1, 1))) {
        failure_failed(failure, "out of memory");
    }
    if (text && file_read(path, descriptor, 0, text, size, failure) != 0) {
        free(text);
        text = NULL;
    }
    close(descriptor);
    return text;
}

static int read_list(const struct options *options, struct bench_shapes *shapes, struct failure *failure)
{
    const char *path = options->value[OPTION_SHAPES];
    char *text = path ? read_text(path, failure) : strdup(built_in);
    int result;
    if (!text && !path) {
        return failure_failed(failure, "out of memory");
    }
    if (!text) {
        return -1;
    }
    result = read_lines(options, text, path ? path : "(built in)", shapes, failure);
    free(text);
    return result;
}

int bench_shapes_read(const struct options *options, struct bench_shapes *shapes, struct failure *failure)
{
    const enum option_id one[] = { OPTION_SHAPE, OPTION_NONE };
    shapes->n = 0;
    shapes->shape = NULL;
    if (!options->value[OPTION_SHAPE]) {
        if (option_needs(options, OPTION_BENCH_CAUSAL, one, failure) != 0 ||
            option_needs(options, OPTION_MASK_KIND, one, failure) != 0) {
            return -1;
        }
        return read_list(options, shapes, failure);
    }
    if (options->value[OPTION_SHAPES]) {
        return failure_misuse(failure, "--shapes %s: give either --shape or --shapes", options->value[OPTION_SHAPES]);
    }
    shapes->shape = calloc(1, sizeof *shapes->shape);
    if (!shapes->shape) {
        return failure_failed(failure, "out of memory");
    }
    shapes->n = 1;
    return read_shape(options, "-", shapes->shape, failure);
}

void bench_shape_text(const clattn_problem *p, char *text, size_t capacity)
{
    snprintf(text, capacity, "%lld,%lld,%lld,%lld,%lld,%lld,%lld", (long long)p->batch, (long long)p->query_heads,
             (long long)p->kv_heads, (long long)p->query_len, (long long)p->key_len, (long long)p->head_dim,
             (long long)p->head_dim_v);
}

const char *bench_shape_name(const struct bench_shape *shape, char text[BENCH_SHAPE_TEXT])
{
    bench_shape_text(&shape->problem, text, BENCH_SHAPE_TEXT);
    return strcmp(shape->name, "-") == 0 ? text : shape->name;
}
