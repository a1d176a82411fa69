#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void chart_begin(struct chart *chart, const char *title, int columns)
{
    memset(chart, 0, sizeof(*chart));
    snprintf(chart->title, sizeof(chart->title), "%s", title);
    chart->columns = columns;
}

void chart_free(struct chart *chart)
{
    for (int i = 0; i < chart->n_panels; ++i) {
        struct chart_panel *panel = &chart->panels[i];
        for (int s = 0; s < panel->n_series; ++s) {
            free(panel->series[s].x);
            free(panel->series[s].y);
        }
        free(panel->heat);
    }
    memset(chart, 0, sizeof(*chart));
}

struct chart_panel *chart_add(struct chart *chart, const char *title, const char *x_label, const char *y_label,
                              enum chart_axis x_axis, enum chart_axis y_axis)
{
    if (chart->n_panels == CHART_PANELS_MAX) {
        chart->failed = 1;
        --chart->n_panels;
    }
    struct chart_panel *panel = &chart->panels[chart->n_panels++];
    snprintf(panel->title, sizeof(panel->title), "%s", title);
    snprintf(panel->x_label, sizeof(panel->x_label), "%s", x_label);
    snprintf(panel->y_label, sizeof(panel->y_label), "%s", y_label);
    panel->x_axis = x_axis;
    panel->y_axis = y_axis;
    return panel;
}

void chart_line(struct chart *chart, struct chart_panel *panel, const char *label, size_t n, const double *x,
                const double *y, int has_marks)
{
    if (panel->n_series == CHART_SERIES_MAX) {
        chart->failed = 1;
        return;
    }
    struct chart_series *series = &panel->series[panel->n_series];
    series->x = malloc((n + 1) * sizeof(*x));
    series->y = malloc((n + 1) * sizeof(*y));
    series->style = panel->n_series++;
    series->has_marks = has_marks;
    snprintf(series->label, sizeof(series->label), "%s", label);
    if (!series->x || !series->y) {
        chart->failed = 1;
        return;
    }
    for (size_t i = 0; i < n; ++i) {
        const int x_shown = isfinite(x[i]) && (panel->x_axis == AXIS_LINEAR || x[i] > 0);
        const int y_shown = isfinite(y[i]) && (panel->y_axis == AXIS_LINEAR || y[i] > 0);
        if (x_shown && y_shown) {
            series->x[series->n] = x[i];
            series->y[series->n++] = y[i];
        }
    }
}

struct chart_heat *chart_heat(struct chart *chart, struct chart_panel *panel, int rows, int columns)
{
    panel->heat = calloc(1, sizeof(*panel->heat));
    if (!panel->heat || rows > CHART_HEAT_MAX || columns > CHART_HEAT_MAX) {
        chart->failed = 1;
        return NULL;
    }
    panel->heat->rows = rows;
    panel->heat->columns = columns;
    return panel->heat;
}

struct chart_heat *chart_numbered_heat(struct chart *chart, struct chart_panel *panel, int rows, int columns)
{
    struct chart_heat *heat = chart_heat(chart, panel, rows, columns);
    for (int i = 0; heat && i < rows; ++i) {
        snprintf(heat->row_labels[i], sizeof(heat->row_labels[i]), "%d", i);
    }
    for (int j = 0; heat && j < columns; ++j) {
        snprintf(heat->column_labels[j], sizeof(heat->column_labels[j]), "%d", j);
    }
    return heat;
}
