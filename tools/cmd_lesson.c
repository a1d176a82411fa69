/* clattn lesson: experiments on attention, measured on the device. One as text in the terminal, with a picture
 * where --plot asks for it; or all of them as pictures and a page in a folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "closest.h"
#include "commands.h"
#include "document.h"
#include "files.h"
#include "lesson/course.h"
#include "lesson/lesson.h"
#include "library.h"
#include "output.h"
#include "plot.h"
#include "progress.h"
#include "system.h"

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
            struct output output;
            result = chart_write(chart, plot, &output, run->failure);
            if (result == 0) {
                result = output_take_place(&output, run->failure);
            }
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

/* The course on its way into its folder: nothing of it is there before all of it was measured, so that Ctrl-C, too,
 * leaves nothing. */
struct course {
    const char *folder;
    struct text index;
    struct course_file {
        struct text path;
        struct chart *chart; /* NULL: the index */
        struct output output;
    } * files; /* a picture of each lesson, then the index */
};

/* Where each goes, and whether it may. */
static int name_files(struct course *course, struct failure *failure)
{
    for (size_t i = 0; i <= lesson_count; ++i) {
        struct text *path = &course->files[i].path;
        text_append(path, "%s/%s", course->folder, i < lesson_count ? lessons[i].name : "index.html");
        text_append(path, "%s", i < lesson_count ? ".svg" : "");
        if (path->failed) {
            return failure_failed(failure, "out of memory");
        }
        if (output_check(path->data, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Appends the lesson to the index, and keeps its chart. */
static int add_to_course(size_t number, struct lesson_run *run, struct course *course, cJSON *document)
{
    const struct lesson *lesson = &lessons[number];
    struct course_file *file = &course->files[number];
    struct page *page = malloc(sizeof(*page));
    struct chart *chart = malloc(sizeof(*chart));
    int result = -1;
    if (!page || !chart) {
        failure_failed(run->failure, "out of memory");
        free(chart);
    } else {
        file->chart = chart;
        const double start = clock_seconds();
        result = run_lesson(lesson, run, page, chart);
        if (result == 0) {
            result = course_add(&course->index, lesson, page, chart, run->failure);
        }
        if (result == 0 && document) {
            add_to_document(document, lesson, page, file->path.data);
        } else if (result == 0) {
            printf("%-18s %4.1f s\n", lesson->name, clock_seconds() - start);
            fflush(stdout);
        }
        page_free(page);
    }
    free(page);
    return result;
}

static int write_files(struct course *course, struct failure *failure)
{
    const struct file_part index = { course->index.data, course->index.length };
    int result = 0;
    for (size_t i = 0; i <= lesson_count && result == 0; ++i) {
        struct course_file *file = &course->files[i];
        result = file->chart ? chart_write(file->chart, file->path.data, &file->output, failure)
                             : output_write(&file->output, file->path.data, 1, &index, failure);
    }
    return result;
}

/* The pictures, then the index that names them; of a folder that was made for them nothing stays after a failure. */
static int take_places(struct course *course, int is_new, struct failure *failure)
{
    for (size_t i = 0; i <= lesson_count; ++i) {
        if (output_take_place(&course->files[i].output, failure) != 0) {
            while (is_new && i > 0) {
                unlink(course->files[--i].path.data);
            }
            return -1;
        }
    }
    return 0;
}

static int cannot_make(const struct course *course, struct failure *failure)
{
    return failure_misuse(failure, "--output %s: cannot make the folder: %s", course->folder, strerror(errno));
}

static int write_course(struct course *course, struct lesson_run *run, int is_new, cJSON *document)
{
    char device[256];
    int result = 0;
    library_device_name(run->context, device, sizeof(device));
    course_begin(&course->index, device, run->seed);
    for (size_t i = 0; i < lesson_count && result == 0; ++i) {
        result = add_to_course(i, run, course, document);
    }
    course_end(&course->index);
    if (result == 0 && course->index.failed) {
        result = failure_failed(run->failure, "out of memory");
    }
    if (result == 0 && is_new && system_make_folder(course->folder) != 0) {
        result = cannot_make(course, run->failure);
    }
    if (result == 0) {
        result = write_files(course, run->failure);
    }
    if (result == 0) {
        result = take_places(course, is_new, run->failure);
    }
    if (result == 0 && document) {
        cJSON_AddStringToObject(document, "wrote", course->files[lesson_count].path.data);
    } else if (result == 0) {
        printf("wrote %s, and a picture of each beside it\n", course->files[lesson_count].path.data);
    }
    return result;
}

static int make_course(struct lesson_run *run, const char *folder, cJSON *document)
{
    struct course course = { folder, TEXT_INIT, NULL };
    const int is_new = system_make_folder(folder) == 0;
    if (!is_new && errno != EEXIST) {
        return cannot_make(&course, run->failure);
    }
    course.files = calloc(lesson_count + 1, sizeof(*course.files));
    int result = course.files ? name_files(&course, run->failure) : failure_failed(run->failure, "out of memory");
    if (is_new) {
        rmdir(folder); /* until there is something to write */
    }
    if (result == 0) {
        result = write_course(&course, run, is_new, document);
    }
    for (size_t i = 0; course.files && i <= lesson_count; ++i) {
        if (course.files[i].chart) {
            chart_free(course.files[i].chart);
            free(course.files[i].chart);
        }
        output_abandon(&course.files[i].output);
        text_free(&course.files[i].path);
    }
    if (result != 0 && is_new) {
        rmdir(folder);
    }
    free(course.files);
    text_free(&course.index);
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
        if (!options->value[OPTION_COURSE]) {
            return failure_misuse(failure, "--output: is missing; --all writes there");
        }
        return plot_is_built() ? 0
                               : failure_misuse(failure, "--all: its pictures need cairo, which this clattn was "
                                                         "built without; the lessons by name print text");
    }
    if (options->value[OPTION_COURSE]) {
        return failure_misuse(failure, "--output %s: is for --all", options->value[OPTION_COURSE]);
    }
    if (!*lesson) {
        struct text names = TEXT_INIT;
        struct closest closest;
        char hint[CLOSEST_HINT];
        const char *word = options->operand ? options->operand : "";
        closest_begin(&closest, word, strlen(word));
        for (size_t i = 0; i < lesson_count; ++i) {
            text_append(&names, "%s%s", i ? ", " : "", lessons[i].name);
            closest_offer(&closest, lessons[i].name);
        }
        failure_misuse(failure, "lesson %s: %s; there are %s%s", *word ? word : "NAME",
                       *word ? "is not known" : "is missing", names.data ? names.data : "",
                       closest_hint(&closest, hint));
        text_free(&names);
        return -1;
    }
    if (plot && plot_check_name(plot, failure) != 0) {
        return -1;
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
    "of row, variance, saturation, gradient, training, mask, score, stability, complexity, additive, "
    "money-bank-grows.",
    "NAME [OPTION]...\n       clattn lesson --all --output DIR [OPTION]...",
    "NAME",
    groups,
    "Examples:\n"
    "  clattn lesson variance --plot variance.png\n"
    "  clattn lesson --all --output lessons\n",
    run,
};
