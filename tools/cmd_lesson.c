/* clattn lesson: experiments on attention, measured on the device. One as text in the terminal, with a picture
 * where --plot asks for it; or all of them as pictures and a page in a folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "closest.h"
#include "commands.h"
#include "document.h"
#include "files.h"
#include "lesson/course.h"
#include "lesson/lesson.h"
#include "library.h"
#include "progress.h"

/* Adds the lesson, and where its picture is, to the document of --json. */
static void add_to_document(cJSON *document, const struct lesson *lesson, struct page *page, const char *plot)
{
    cJSON *one = page_take_document(page);
    cJSON_AddStringToObject(one, "name", lesson->name);
    if (plot) {
        cJSON_AddStringToObject(one, "wrote", plot);
    }
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(document, "lessons"), one);
}

static int run_lesson(const struct lesson *lesson, struct lesson_run *run, struct page *page, struct chart *chart)
{
    page_begin(page, lesson->title);
    memset(chart, 0, sizeof(*chart));
    run->page = page;
    run->chart = chart;
    progress_begin("lesson", lesson->name);
    const int result = lesson->run(run);
    progress_end();
    if (result == 0 && (page->terminal.failed || page->html.failed)) {
        return failure_failed(run->failure, "out of memory");
    }
    return result;
}

/* ---- one -------------------------------------------------------------------------------------- */

static int show_one(const struct lesson *lesson, struct lesson_run *run, const char *plot, cJSON *document)
{
    struct page *page = malloc(sizeof(*page));
    struct chart *chart = malloc(sizeof(*chart));
    int result = -1;
    if (!page || !chart) {
        failure_failed(run->failure, "out of memory");
    } else {
        result = run_lesson(lesson, run, page, chart);
        if (result == 0 && plot) {
            result = chart_write(chart, plot, run->failure);
        }
        if (result == 0 && document) {
            add_to_document(document, lesson, page, plot);
        } else if (result == 0) {
            fputs(page->terminal.data, stdout);
            if (plot) {
                printf("wrote %s\n", plot);
            }
        }
        page_free(page);
        chart_free(chart);
    }
    free(page);
    free(chart);
    return result;
}

/* ---- all -------------------------------------------------------------------------------------- */

/* Writes the lesson's picture and appends the lesson to the index. */
static int add_to_course(const struct lesson *lesson, struct lesson_run *run, const char *folder, struct text *index,
                         cJSON *document)
{
    struct page *page = malloc(sizeof(*page));
    struct chart *chart = malloc(sizeof(*chart));
    struct text path = TEXT_INIT;
    int result = -1;
    text_append(&path, "%s/%s.svg", folder, lesson->name);
    if (!page || !chart || path.failed) {
        failure_failed(run->failure, "out of memory");
    } else {
        const double start = clock_seconds();
        result = run_lesson(lesson, run, page, chart);
        if (result == 0) {
            result = course_add(index, lesson, page, chart, run->failure);
        }
        if (result == 0) {
            result = chart_write(chart, path.data, run->failure);
        }
        if (result == 0 && document) {
            add_to_document(document, lesson, page, path.data);
        } else if (result == 0) {
            printf("%-18s %4.1f s  %s\n", lesson->name, clock_seconds() - start, path.data);
            fflush(stdout);
        }
        page_free(page);
        chart_free(chart);
    }
    text_free(&path);
    free(page);
    free(chart);
    return result;
}

/* After a failure: the first `count` pictures, and the folder if it was made for them. */
static void remove_course(const char *folder, size_t count, int is_new)
{
    for (size_t i = 0; i < count; ++i) {
        struct text path = TEXT_INIT;
        text_append(&path, "%s/%s.svg", folder, lessons[i].name);
        if (!path.failed) {
            remove(path.data);
        }
        text_free(&path);
    }
    if (is_new) {
        rmdir(folder);
    }
}

static int make_course(struct lesson_run *run, const char *folder, cJSON *document)
{
    struct text index = TEXT_INIT, path = TEXT_INIT;
    char device[256];
    int result = 0;
    const int is_new = mkdir(folder, 0777) == 0;
    size_t done = 0;
    if (!is_new && errno != EEXIST) {
        return failure_misuse(run->failure, "--output %s: cannot make the folder: %s", folder, strerror(errno));
    }
    library_device_name(run->context, device, sizeof(device));
    course_begin(&index, device, run->seed);
    for (; done < lesson_count && result == 0; done += result == 0) {
        result = add_to_course(&lessons[done], run, folder, &index, document);
    }
    course_end(&index);
    text_append(&path, "%s/index.html", folder);
    if (result == 0 && (index.failed || path.failed)) {
        result = failure_failed(run->failure, "out of memory");
    }
    if (result == 0) {
        const struct file_part part = { index.data, index.length };
        result = file_write(path.data, 1, &part, run->failure);
    }
    if (result == 0 && document) {
        cJSON_AddStringToObject(document, "wrote", path.data);
    } else if (result == 0) {
        printf("wrote %s\n", path.data);
    } else {
        remove_course(folder, done, is_new);
    }
    text_free(&index);
    text_free(&path);
    return result;
}

/* ---- the command ------------------------------------------------------------------------------ */

static int check_options(const struct options *options, const struct lesson **lesson, struct failure *failure)
{
    const char *plot = options->value[OPTION_LESSON_PLOT];
    *lesson = options->operand ? lesson_find(options->operand) : NULL;
    if (options->value[OPTION_ALL]) {
        if (options->operand || plot) {
            return failure_misuse(failure, "--all: writes every lesson into --output; give no %s",
                                  plot ? "--plot" : "NAME");
        }
        return options->value[OPTION_COURSE] ? 0 : failure_misuse(failure, "--output: is missing; --all writes there");
    }
    if (options->value[OPTION_COURSE]) {
        return failure_misuse(failure, "--output %s: is for --all", options->value[OPTION_COURSE]);
    }
    if (!*lesson) {
        struct text names = TEXT_INIT;
        struct closest closest;
        closest_begin(&closest, options->operand ? options->operand : "",
                      options->operand ? strlen(options->operand) : 0);
        for (size_t i = 0; i < lesson_count; ++i) {
            text_append(&names, "%s%s", i ? ", " : "", lessons[i].name);
            closest_offer(&closest, lessons[i].name);
        }
        const char *meant = closest_name(&closest);
        failure_misuse(failure, "lesson %s: %s;%s%s%s there are %s", options->operand ? options->operand : "NAME",
                       options->operand ? "is not known" : "is missing", meant ? " did you mean " : "",
                       meant ? meant : "", meant ? "?" : "", names.data ? names.data : "");
        text_free(&names);
        return -1;
    }
    if (plot && !file_has_suffix(plot, ".png") && !file_has_suffix(plot, ".svg")) {
        return failure_misuse(failure, "--plot %s: must end in .png or .svg", plot);
    }
    return plot ? file_check_output(plot, failure) : 0;
}

static int run(const struct options *options, struct failure *failure)
{
    struct lesson_run lesson_run = { .options = options, .data = options->value[OPTION_DATA], .failure = failure };
    const struct lesson *lesson;
    int64_t seed = 1;
    if (check_options(options, &lesson, failure) != 0 ||
        option_integer(options, OPTION_SEED, 0, INT64_MAX, &seed, failure) != 0 ||
        library_open(options, &lesson_run.context, failure) != 0) {
        return -1;
    }
    lesson_run.seed = (uint64_t)seed;
    cJSON *document = options->value[OPTION_JSON] ? document_begin("lesson", lesson_run.context) : NULL;
    if (document) {
        cJSON_AddNumberToObject(document, "seed", (double)seed);
        cJSON_AddArrayToObject(document, "lessons");
    }
    int result = lesson ? show_one(lesson, &lesson_run, options->value[OPTION_LESSON_PLOT], document)
                        : make_course(&lesson_run, options->value[OPTION_COURSE], document);
    if (document && result == 0) {
        result = document_print(document, failure);
    } else {
        cJSON_Delete(document);
    }
    clattn_context_destroy(lesson_run.context);
    return result;
}

static const struct option_group groups[] = {
    { "Lesson",
      { OPTION_LESSON_PLOT, OPTION_DEVICE, OPTION_SEED, OPTION_DATA, OPTION_ALL, OPTION_COURSE, OPTION_JSON,
        OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_lesson = {
    "lesson",
    "An experiment on attention: measures on the device, prints a table and what follows from it. NAME is one "
    "of row, variance, saturation, gradient, mask, stability, complexity, additive, money-bank-grows.",
    "NAME [OPTION]...\n       clattn lesson --all --output DIR [OPTION]...",
    "NAME",
    groups,
    "Examples:\n"
    "  clattn lesson variance --plot variance.png\n"
    "  clattn lesson --all --output lessons\n",
    run,
};
