/* Pictures of lessons: a title over a grid of panels, each with axes and units, curves with a legend, or a
 * heat map. Curves differ by dash, mark and lightness, so that grey prints tell the same. Drawn by Cairo as
 * .png or .svg. Filled by the lessons, written by cmd_lesson.c. */
#ifndef CLATTN_TOOLS_LESSON_CHART_H
#define CLATTN_TOOLS_LESSON_CHART_H

#include <stddef.h>

#include "../failure.h"
#include "../insides.h"
#include "../output.h"

#define CHART_PANELS_MAX 12
#define CHART_SERIES_MAX 6
#define CHART_HEAT_MAX 16 /* rows and columns of a heat map */
#define CHART_LABEL_MAX 96

enum chart_axis { AXIS_LINEAR, AXIS_LOG };

struct chart_series {
    char label[CHART_LABEL_MAX];
    size_t n;
    double *x, *y; /* owned */
    int style;     /* 0, 1, 2, ...: dash, mark and lightness */
    int has_marks; /* measured points, joined; 0: only the line */
};

struct chart_heat {
    int rows, columns;
    double values[CHART_HEAT_MAX][CHART_HEAT_MAX]; /* 0 white to 1 dark blue, to -1 brown; NaN: crossed out */
    char numbers[CHART_HEAT_MAX][CHART_HEAT_MAX][12];
    char row_labels[CHART_HEAT_MAX][24], column_labels[CHART_HEAT_MAX][24];
};

struct chart_panel {
    char title[CHART_LABEL_MAX], x_label[CHART_LABEL_MAX], y_label[CHART_LABEL_MAX];
    enum chart_axis x_axis, y_axis;
    double y_low, y_high; /* fixed limits; equal: from the data */
    struct chart_series series[CHART_SERIES_MAX];
    int n_series;
    struct chart_heat *heat; /* owned; NULL: curves */
};

struct chart {
    char title[160];
    int columns; /* panels side by side */
    struct chart_panel panels[CHART_PANELS_MAX];
    int n_panels;
    int failed; /* no memory: kept until chart_write */
};

void chart_begin(struct chart *chart, const char *title, int columns);
void chart_free(struct chart *chart);

struct chart_panel *chart_add(struct chart *chart, const char *title, const char *x_label, const char *y_label,
                              enum chart_axis x_axis, enum chart_axis y_axis);

/* Copies the points. Those that a logarithmic axis cannot show are left out. */
void chart_line(struct chart *chart, struct chart_panel *panel, const char *label, size_t n, const double *x,
                const double *y, int has_marks);

/* An empty heat map for the panel; NULL when out of memory. */
struct chart_heat *chart_heat(struct chart *chart, struct chart_panel *panel, int rows, int columns);

/* One whose rows and columns are labelled by their numbers, from 0. */
struct chart_heat *chart_numbered_heat(struct chart *chart, struct chart_panel *panel, int rows, int columns);

/* A misuse unless the name ends in .png or .svg. It takes its place when the caller says so. */
int chart_write(const struct chart *chart, const char *path, struct output *output, struct failure *failure);

/* The picture as a data: URI for an HTML page. */
int chart_data_uri(const struct chart *chart, struct text *html, struct failure *failure);

#endif
