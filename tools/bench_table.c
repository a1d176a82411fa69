#include "bench_table.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "document.h"
#include "library.h"
#include "number.h"
#include "system.h"

enum shown { ALWAYS, WITH_BACKWARD, WITH_READ, WITH_SUMS };

/* A number of each row, in the order of --tsv. */
static const struct column {
    const char *name;  /* in --tsv and --json */
    int tsv_digits;    /* 0: a whole number */
    const char *title; /* for people; NULL: not for them */
    int width, digits; /* digits 0: as text_format says */
    const char *text_format;
    size_t at; /* in struct measurement */
    enum shown shown;
} columns[] = {
#define AT(member) offsetof(struct measurement, member)
    { "min_ms", 6, "min ms", 8, 4, NULL, AT(call.min_ms), ALWAYS },
    { "median_ms", 6, "median ms", 9, 4, NULL, AT(call.median_ms), ALWAYS },
    { "gflops", 5, "GFLOP/s", 7, 4, NULL, AT(gflops), ALWAYS },
    { "gbytes_s", 5, "GB/s", 6, 3, NULL, AT(gbytes_s), ALWAYS },
    { "cpu_ms", 6, "cpu ms", 8, 4, NULL, AT(cpu_ms), ALWAYS },
    { "first_ms", 6, "first ms", 8, 4, NULL, AT(first_ms), ALWAYS },
    { "calls", 0, NULL, 0, 0, NULL, AT(calls), ALWAYS },
    { "workspace_bytes", 0, "workspace", 9, 0, "%.0f", AT(workspace_bytes), ALWAYS },
    { "error_share", 4, "error", 5, 0, "%.2f", AT(error_share), ALWAYS },
    { "backward_min_ms", 6, "back ms", 8, 4, NULL, AT(backward.min_ms), WITH_BACKWARD },
    { "backward_median_ms", 6, "median ms", 9, 4, NULL, AT(backward.median_ms), WITH_BACKWARD },
    { "read_min_ms", 6, "read ms", 8, 4, NULL, AT(read.min_ms), WITH_READ },
    { "read_median_ms", 6, "median ms", 9, 4, NULL, AT(read.median_ms), WITH_READ },
    { "read_gbytes_s", 5, "GB/s", 6, 3, NULL, AT(read_gbytes_s), WITH_READ },
    { "key_sums_min_ms", 6, "sums ms", 8, 4, NULL, AT(sums.min_ms), WITH_SUMS },
    { "key_sums_median_ms", 6, "median ms", 9, 4, NULL, AT(sums.median_ms), WITH_SUMS },
};
enum { COLUMNS = sizeof columns / sizeof *columns };
enum { SHAPE_WIDTH = 23, STRATEGY_WIDTH = 10 }; /* of the words before them */

/* What a terminal that is too narrow for all goes without, in this order. */
static const size_t spared[] = {
    AT(workspace_bytes),    AT(cpu_ms),         AT(first_ms), AT(read.median_ms), AT(sums.median_ms),
    AT(backward.median_ms), AT(call.median_ms), AT(gbytes_s), AT(read_gbytes_s),
};
#undef AT

static int is_shown(const struct bench_table *table, const struct column *column)
{
    return table->shown[column->shown];
}

/* For people, in a terminal of this width. */
static int is_printed(const struct bench_table *table, const struct column *column)
{
    for (int i = 0; i < table->spared; i++) {
        if (column->at == spared[i]) {
            return 0;
        }
    }
    return is_shown(table, column) && column->title;
}

static int printed_width(const struct bench_table *table)
{
    int width = SHAPE_WIDTH + 1 + STRATEGY_WIDTH;
    for (int i = 0; i < COLUMNS; i++) {
        width += is_printed(table, &columns[i]) ? 1 + columns[i].width : 0;
    }
    return width;
}

static double value_of(const struct measurement *found, const struct column *column)
{
    return *(const double *)((const char *)found + column->at);
}

/* Words of a row, in the order of --tsv. */
enum { NAME, SHAPE, DTYPE, CAUSAL, MASK, STRATEGY, WORDS };
static const char *const word_names[WORDS] = { "name", "shape", "dtype", "causal", "mask", "strategy" };

/* `text` has room for a shape. */
static void find_words(const struct bench_shape *shape, const struct measurement *found, char text[160],
                       const char *words[WORDS])
{
    bench_shape_text(&shape->problem, text, 160);
    words[NAME] = shape->name;
    words[SHAPE] = text;
    words[DTYPE] = clattn_type_name(shape->problem.type);
    words[CAUSAL] = bench_causal_name(&shape->problem);
    words[MASK] = bench_mask_name(&shape->problem);
    words[STRATEGY] = found->strategy;
}

static const char *features_of(const struct bench_table *table)
{
    return *table->features ? table->features + 1 : "-";
}

/* ---- above the rows ---- */

static void print_tsv_header(const struct bench_table *table)
{
    for (int i = 0; i < WORDS; i++) {
        printf("%s%s", i ? "\t" : "", word_names[i]);
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (is_shown(table, &columns[i])) {
            printf("\t%s%s", columns[i].name,
                   columns[i].at == offsetof(struct measurement, error_share) ? "\tfeatures" : "");
        }
    }
    printf("\n");
}

static void print_text_header(const struct bench_table *table, const clattn_context *context, clattn_type type)
{
    static const char of_error[] = "error: share of the tolerance, <= 1 is right";
    char device[256];
    library_device_name(context, device, sizeof device);
    const int width =
        printf("%s, %s%s%s;", device, clattn_type_name(type), *table->features ? "," : "", table->features);
    const int fits = table->terminal == 0 || width + (int)sizeof of_error <= table->terminal; /* a blank for the 0 */
    printf("%s%s\n", fits ? " " : "\n", of_error);
    if (table->spared > 0) {
        printf("(a wider terminal shows more columns)\n");
    }
    printf("%-*s %-*s", SHAPE_WIDTH, "shape", STRATEGY_WIDTH, "strategy");
    for (int i = 0; i < COLUMNS; i++) {
        if (is_printed(table, &columns[i])) {
            printf(" %*s", columns[i].width, columns[i].title);
        }
    }
    printf("\n");
}

int bench_table_begin(struct bench_table *table, const struct options *options, const clattn_context *context,
                      const char *features, clattn_type type, struct failure *failure)
{
    const int as_tsv = options->value[OPTION_TSV] != NULL, as_json = options->value[OPTION_JSON] != NULL;
    if (as_tsv && as_json) {
        return failure_misuse(failure, "--tsv and --json: give one of them");
    }
    table->with_kernels = options->value[OPTION_KERNELS] != NULL;
    if (as_tsv && table->with_kernels) {
        return failure_misuse(failure, "--kernels and --tsv: a line has no room for kernels; give --json");
    }
    table->form = as_json ? BENCH_JSON : as_tsv ? BENCH_TSV : BENCH_TEXT;
    table->shown[ALWAYS] = 1;
    table->shown[WITH_BACKWARD] = options->value[OPTION_BACKWARD] != NULL;
    table->shown[WITH_READ] = options->value[OPTION_READ] != NULL;
    table->shown[WITH_SUMS] = options->value[OPTION_BENCH_KEY_SUMS] != NULL;
    table->features = features;
    table->document = NULL;
    table->spared = 0;
    table->terminal = system_terminal_columns(STDOUT_FILENO);
    while (table->terminal > 0 && printed_width(table) > table->terminal &&
           table->spared < (int)(sizeof spared / sizeof *spared)) {
        table->spared++;
    }
    if (as_json) {
        table->document = document_begin("bench", context);
        cJSON_AddArrayToObject(table->document, "results");
    } else if (as_tsv) {
        print_tsv_header(table);
    } else {
        print_text_header(table, context, type);
    }
    return 0;
}

/* ---- rows ---- */

/* Other programs read NaN and infinities too. */
static const char *tsv_text(double value, int digits, char text[NUMBER_TEXT])
{
    if (isfinite(value) && digits > 0) {
        return number_text(value, digits, text);
    }
    snprintf(text, NUMBER_TEXT, "%.0f", value);
    return text;
}

static void print_tsv_row(const struct bench_table *table, const char *const words[WORDS],
                          const struct measurement *found)
{
    for (int i = 0; i < WORDS; i++) {
        printf("%s%s", i ? "\t" : "", words[i]);
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (is_shown(table, &columns[i])) {
            char text[NUMBER_TEXT];
            printf("\t%s", tsv_text(value_of(found, &columns[i]), columns[i].tsv_digits, text));
        }
        if (columns[i].at == offsetof(struct measurement, error_share)) {
            printf("\t%s", features_of(table));
        }
    }
    printf("\n");
}

static void print_text_row(const struct bench_table *table, const char *const words[WORDS],
                           const struct measurement *found)
{
    printf("%-*s %-*s", SHAPE_WIDTH, strcmp(words[NAME], "-") == 0 ? words[SHAPE] : words[NAME], STRATEGY_WIDTH,
           words[STRATEGY]);
    for (int i = 0; i < COLUMNS; i++) {
        char text[NUMBER_TEXT];
        if (!is_printed(table, &columns[i])) {
            continue;
        }
        if (columns[i].text_format) {
            snprintf(text, sizeof text, columns[i].text_format, value_of(found, &columns[i]));
        } else {
            number_text(value_of(found, &columns[i]), columns[i].digits, text);
        }
        printf(" %*s", columns[i].width, text);
    }
    printf("\n");
}

/* The kernels of a row stand below it. */
static void print_text_kernels(const struct bench_kernels *kernels)
{
    char text[NUMBER_TEXT];
    double sum_ms = 0;
    const double percent = kernels->span_ms > 0 ? 100 / kernels->span_ms : 0; /* clocks may be too coarse */
    printf("    %-24s %-24s %8s %9s %6s\n", "kernel", "file", "launches", "ms", "share");
    for (size_t i = 0; i < kernels->count; i++) {
        const struct bench_kernel *kernel = &kernels->list[i];
        sum_ms += kernel->ms;
        printf("    %-24s %-24s %8d %9s %5.0f%%\n", kernel->name, kernel->file, kernel->launches,
               number_text(kernel->ms, 4, text), percent * kernel->ms);
    }
    printf("    %-49s %8s %9s %5.0f%%\n", "between them", "", number_text(kernels->span_ms - sum_ms, 4, text),
           percent * (kernels->span_ms - sum_ms));
}

static void add_json_kernels(cJSON *row, const struct bench_kernels *kernels)
{
    cJSON *list = cJSON_AddArrayToObject(row, "kernels");
    for (size_t i = 0; i < kernels->count; i++) {
        cJSON *kernel = cJSON_CreateObject();
        cJSON_AddStringToObject(kernel, "kernel", kernels->list[i].name);
        cJSON_AddStringToObject(kernel, "file", kernels->list[i].file);
        cJSON_AddNumberToObject(kernel, "launches", kernels->list[i].launches);
        cJSON_AddNumberToObject(kernel, "ms", kernels->list[i].ms);
        cJSON_AddItemToArray(list, kernel);
    }
    cJSON_AddNumberToObject(row, "kernels_span_ms", kernels->span_ms);
}

static void add_json_row(const struct bench_table *table, const char *const words[WORDS],
                         const struct measurement *found)
{
    cJSON *row = cJSON_CreateObject();
    for (int i = 0; i < WORDS; i++) {
        cJSON_AddStringToObject(row, word_names[i], words[i]);
    }
    cJSON_AddStringToObject(row, "features", features_of(table));
    for (int i = 0; i < COLUMNS; i++) {
        if (is_shown(table, &columns[i])) {
            cJSON_AddNumberToObject(row, columns[i].name, value_of(found, &columns[i]));
        }
    }
    if (table->with_kernels) {
        add_json_kernels(row, &found->kernels);
    }
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(table->document, "results"), row);
}

void bench_table_row(const struct bench_table *table, const struct bench_shape *shape, const struct measurement *found)
{
    char text[160];
    const char *words[WORDS];
    find_words(shape, found, text, words);
    if (table->form == BENCH_JSON) {
        add_json_row(table, words, found);
    } else if (table->form == BENCH_TSV) {
        print_tsv_row(table, words, found);
    } else {
        print_text_row(table, words, found);
        if (table->with_kernels) {
            print_text_kernels(&found->kernels);
        }
    }
    fflush(stdout);
}

int bench_table_end(struct bench_table *table, struct failure *failure)
{
    return table->document ? document_print(table->document, failure) : 0;
}
