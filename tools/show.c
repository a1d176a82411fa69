#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "labels.h"
#include "system.h"

#define LABEL_MAX 14
#define PERCENT_CELL 7 /* columns that a cell with a percentage needs */
#define ROWS_MAX 48    /* of a matrix, and of a list */
#define TOP 4          /* tokens named for each row */

enum { LEVELS = 5 };
static const char *const blocks[LEVELS] = { " ", "\xe2\x96\x91", "\xe2\x96\x92", "\xe2\x96\x93", "\xe2\x96\x88" };
static const char *const letters[LEVELS] = { " ", ".", "+", "#", "@" };

/* From light to dark in the 256-colour palette, with the ink that is read on it. */
static const struct {
    int paper, ink;
} colours[] = { { 255, 16 }, { 189, 16 }, { 153, 16 }, { 117, 16 }, { 75, 16 }, { 32, 231 }, { 25, 231 }, { 18, 231 } };
enum { COLOURS = sizeof colours / sizeof *colours };

struct show_style show_style_of_terminal(void)
{
    struct show_style style = { 80, 0, 0 };
    const char *columns = getenv("COLUMNS"), *no_colour = getenv("NO_COLOR");
    const int of_terminal = system_terminal_columns(STDOUT_FILENO);
    if (of_terminal > 0) {
        style.width = of_terminal;
    } else if (columns && atoi(columns) > 0) {
        style.width = atoi(columns);
    }
    if (style.width < 40) {
        style.width = 40;
    }
    style.colour = system_is_terminal(STDOUT_FILENO) && !(no_colour && *no_colour) && system_terminal_has_colours();
    style.utf8 = system_speaks_utf8();
    return style;
}

/* ---- pieces ---- */

/* A label in exactly `columns` columns: cut with a mark, padded. */
static void print_label(const char *label, int columns, const struct show_style *style)
{
    int wide = utf8_columns(label);
    if (wide > columns) {
        size_t bytes = utf8_fit(label, columns - 1);
        char cut[256];
        snprintf(cut, sizeof cut, "%.*s", (int)bytes, label);
        printf("%s%s", cut, style->utf8 ? "\xe2\x80\xa6" : "~");
        wide = utf8_columns(cut) + 1;
    } else {
        printf("%s", label);
    }
    printf("%*s", columns > wide ? columns - wide : 0, "");
}

static int widest(char *const *labels, int64_t n)
{
    int most = 1;
    for (int64_t i = 0; i < n; i++) {
        int columns = utf8_columns(labels[i]);
        if (columns > most) {
            most = columns;
        }
    }
    return most < LABEL_MAX ? most : LABEL_MAX;
}

static int level_of(const struct heat *heat, double value, int levels)
{
    int level = heat->largest > 0 ? (int)(value / heat->largest * levels) : 0;
    return level < levels ? level : levels - 1;
}

static void print_shade(const struct heat *heat, double value, const struct show_style *style)
{
    const char *shade = (style->utf8 ? blocks : letters)[level_of(heat, value, LEVELS)];
    printf("%s%s", shade, shade);
}

static void colour_on(const struct heat *heat, double value)
{
    int level = level_of(heat, value, COLOURS);
    printf("\033[48;5;%dm\033[38;5;%dm", colours[level].paper, colours[level].ink);
}

static void print_legend(const struct heat *heat, const struct show_style *style)
{
    printf("\nshades: ");
    for (int i = 0; style->colour && i < COLOURS; i++) {
        printf("\033[48;5;%dm  \033[0m", colours[i].paper);
    }
    for (int i = 0; !style->colour && i < LEVELS; i++) {
        printf("%s%s%s", i ? "" : "[", (style->utf8 ? blocks : letters)[i], i + 1 < LEVELS ? "" : "]");
    }
    printf(" from 0 to %.0f %%\n", heat->largest * 100);
}

/* ---- a matrix with percentages ---- */

static void print_percent_cell(const struct heat *heat, double value, int cell, const struct show_style *style)
{
    if (style->colour) {
        colour_on(heat, value);
        printf("%*.0f%%%*s\033[0m", cell / 2, value * 100, cell - cell / 2 - 1, "");
    } else {
        print_shade(heat, value, style);
        printf("%3.0f%%%*s", value * 100, cell - 6, "");
    }
}

static void show_percentages(const struct heat *heat, int label, int cell, const struct show_style *style)
{
    printf("%*s", label + 1, "");
    for (int64_t j = 0; j < heat->columns; j++) {
        print_label(heat->column_label[j], cell - 1, style);
        putchar(' ');
    }
    putchar('\n');
    for (int64_t i = 0; i < heat->rows; i++) {
        print_label(heat->row_label[i], label, style);
        putchar(' ');
        for (int64_t j = 0; j < heat->columns; j++) {
            print_percent_cell(heat, heat->value[i * heat->columns + j], cell, style);
        }
        putchar('\n');
    }
    print_legend(heat, style);
}

/* ---- a matrix of shades, labels of columns written downwards ---- */

static void print_downwards(const struct heat *heat, int label)
{
    const char **at = calloc((size_t)heat->columns, sizeof *at);
    int left = LABEL_MAX;
    for (int64_t j = 0; at && j < heat->columns; j++) {
        at[j] = heat->column_label[j];
    }
    for (int more = at != NULL; more && left > 0; left--) {
        printf("%*s", label + 1, "");
        more = 0;
        for (int64_t j = 0; j < heat->columns; j++) {
            size_t bytes = utf8_step(at[j]);
            int columns = bytes ? (int)utf8_fit(at[j], 1) == 0 ? 2 : 1 : 0;
            printf("%.*s%*s", (int)bytes, at[j], 2 - columns, "");
            at[j] += bytes;
            more = more || *at[j];
        }
        putchar('\n');
    }
    free(at);
}

static void show_shades(const struct heat *heat, int label, const struct show_style *style)
{
    print_downwards(heat, label);
    for (int64_t i = 0; i < heat->rows; i++) {
        print_label(heat->row_label[i], label, style);
        putchar(' ');
        for (int64_t j = 0; j < heat->columns; j++) {
            double value = heat->value[i * heat->columns + j];
            if (style->colour) {
                colour_on(heat, value);
                printf("  \033[0m");
            } else {
                print_shade(heat, value, style);
            }
        }
        putchar('\n');
    }
    print_legend(heat, style);
}

/* ---- a list ---- */

/* The TOP largest values of a row, largest first; returns how many there are. */
static int find_top(const double *values, int64_t n, int64_t top[TOP])
{
    int found = 0;
    for (int64_t j = 0; j < n; j++) {
        int place = found;
        while (place > 0 && values[j] > values[top[place - 1]]) {
            place--;
        }
        if (place == TOP || !(values[j] > 0)) {
            continue;
        }
        if (found < TOP) {
            found++;
        }
        for (int i = found - 1; i > place; i--) {
            top[i] = top[i - 1];
        }
        top[place] = j;
    }
    return found;
}

static void print_top(const struct heat *heat, const double *values, int room, const struct show_style *style)
{
    int64_t top[TOP];
    int found = find_top(values, heat->columns, top), label = widest(heat->column_label, heat->columns);
    for (int i = 0; i < found; i++) {
        char place[32] = "";
        if (heat->has_tokens) {
            snprintf(place, sizeof place, "@%lld", (long long)top[i]);
        }
        room -= label + 12;
        if (room < 0) {
            break;
        }
        printf(" %3.0f%% ", values[top[i]] * 100);
        print_label(heat->column_label[top[i]], label, style);
        printf("%-6s", place);
    }
    putchar('\n');
}

static void show_list(const struct heat *heat, int label, const struct show_style *style)
{
    double *received = calloc((size_t)heat->columns, sizeof *received);
    int room = style->width - label - 8;
    for (int64_t i = 0; received && i < heat->rows; i++) {
        for (int64_t j = 0; j < heat->columns; j++) {
            received[j] += heat->value[i * heat->columns + j] / (double)heat->rows;
        }
    }
    printf("%lld x %lld weights: too many to draw.\n", (long long)heat->rows, (long long)heat->columns);
    printf("Most looked at by each row%s:\n", heat->has_tokens ? " (@ place)" : "");
    if (received) {
        printf("%-*s", label + 7, "all rows");
        print_top(heat, received, room, style);
    }
    for (int64_t i = 0; i < heat->rows && i < ROWS_MAX; i++) {
        if (heat->has_tokens) {
            printf("%5lld ", (long long)i);
        } else {
            printf("  row ");
        }
        print_label(heat->row_label[i], label, style);
        putchar(' ');
        print_top(heat, heat->value + i * heat->columns, room, style);
    }
    if (heat->rows > ROWS_MAX) {
        printf("... %lld rows more: --plot draws all\n", (long long)(heat->rows - ROWS_MAX));
    }
    free(received);
}

void show(const struct heat *heat, const struct show_style *style)
{
    int label = widest(heat->row_label, heat->rows);
    int64_t room = style->width - label - 1, cell = room / heat->columns;
    int most = widest(heat->column_label, heat->columns) + 1;
    printf("\nWho attends to whom: %s.\n(--layer and --head choose others.)\n", heat->what);
    if (cell >= 2 && heat->rows <= ROWS_MAX) {
        printf("Each row is a token; its columns are the tokens that it looks at.\n\n");
    }
    if (cell >= PERCENT_CELL && heat->rows <= ROWS_MAX) {
        show_percentages(heat, label, cell < most ? (int)cell : most < PERCENT_CELL ? PERCENT_CELL : most, style);
    } else if (cell >= 2 && heat->rows <= ROWS_MAX) {
        show_shades(heat, label, style);
    } else {
        show_list(heat, label, style);
    }
}
