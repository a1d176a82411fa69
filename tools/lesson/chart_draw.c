#include "chart_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chart_text.h"
#include "chart_ticks.h"

#define PANEL_WIDTH 400.0
#define PANEL_HEIGHT 330.0
#define SMALL_PANEL 290.0 /* heat maps, where there are many */
#define TITLE_ROOM 48.0
#define LEFT_ROOM 82.0
#define BOTTOM_ROOM 58.0
#define TOP_ROOM 34.0
#define RIGHT_ROOM 16.0
#define TEXT_SIZE 15.0
#define TITLE_SIZE 19.0

/* The frame of a panel and the ranges of its axes (of logarithms, where the axis is logarithmic). */
struct frame {
    double left, top, width, height;
    double x_low, x_high, y_low, y_high;
    const struct chart_panel *panel;
};

static const double greys[CHART_SERIES_MAX][3] = {
    { 0.05, 0.15, 0.40 }, { 0.75, 0.33, 0.05 }, { 0.25, 0.55, 0.35 },
    { 0.55, 0.30, 0.60 }, { 0.45, 0.45, 0.45 }, { 0.10, 0.50, 0.65 },
};

static int is_small(const struct chart *chart)
{
    return chart->n_panels >= 9;
}

static double panel_width(const struct chart *chart)
{
    return is_small(chart) ? SMALL_PANEL : PANEL_WIDTH;
}

static double panel_height(const struct chart *chart)
{
    return is_small(chart) ? SMALL_PANEL : PANEL_HEIGHT;
}

void chart_size(const struct chart *chart, double *width, double *height)
{
    const int rows = (chart->n_panels + chart->columns - 1) / chart->columns;
    *width = chart->columns * panel_width(chart) + 8;
    *height = rows * panel_height(chart) + TITLE_ROOM;
}

/* ---- axes ------------------------------------------------------------------------------------- */

static double on_axis(enum chart_axis axis, double value)
{
    return axis == AXIS_LOG ? log10(value) : value;
}

static void find_range(const struct chart_panel *panel, int of_y, double *low, double *high)
{
    const enum chart_axis axis = of_y ? panel->y_axis : panel->x_axis;
    *low = INFINITY;
    *high = -INFINITY;
    for (int s = 0; s < panel->n_series; ++s) {
        for (size_t i = 0; i < panel->series[s].n; ++i) {
            const double value = on_axis(axis, of_y ? panel->series[s].y[i] : panel->series[s].x[i]);
            *low = fmin(*low, value);
            *high = fmax(*high, value);
        }
    }
    if (of_y && panel->y_low < panel->y_high) {
        *low = on_axis(axis, panel->y_low);
        *high = on_axis(axis, panel->y_high);
    } else if (!(*low < *high)) {
        *low = isfinite(*low) ? *low - 0.5 : 0;
        *high = *low + 1;
    } else {
        const double margin = (*high - *low) * (of_y ? 0.06 : 0.02);
        *low -= of_y && axis == AXIS_LINEAR && *low >= 0 && *low < margin ? *low : margin;
        *high += of_y ? 2 * margin : margin;
    }
}

static double x_place(const struct frame *f, double at)
{
    return f->left + (at - f->x_low) / (f->x_high - f->x_low) * f->width;
}

static double y_place(const struct frame *f, double at)
{
    return f->top + (f->y_high - at) / (f->y_high - f->y_low) * f->height;
}

static void draw_grid_line(cairo_t *cairo, double x0, double y0, double x1, double y1)
{
    cairo_set_source_rgb(cairo, 0.88, 0.88, 0.9);
    cairo_set_line_width(cairo, 0.7);
    cairo_move_to(cairo, x0, y0);
    cairo_line_to(cairo, x1, y1);
    cairo_stroke(cairo);
    chart_ink(cairo);
}

static void draw_axes(cairo_t *cairo, const struct frame *f)
{
    struct tick ticks[TICKS_MAX];
    const struct chart_panel *panel = f->panel;
    const double bottom = f->top + f->height;
    int count = chart_ticks(panel->x_axis, f->x_low, f->x_high, ticks);
    cairo_set_font_size(cairo, TEXT_SIZE - 1);
    for (int i = 0; i < count; ++i) {
        const double x = x_place(f, ticks[i].at);
        draw_grid_line(cairo, x, f->top, x, bottom);
        chart_text(cairo, ticks[i].label, x, bottom + 13, 0.5);
    }
    count = chart_ticks(panel->y_axis, f->y_low, f->y_high, ticks);
    for (int i = 0; i < count; ++i) {
        const double y = y_place(f, ticks[i].at);
        draw_grid_line(cairo, f->left, y, f->left + f->width, y);
        chart_text(cairo, ticks[i].label, f->left - 6, y, 1);
    }
    cairo_set_line_width(cairo, 1);
    cairo_rectangle(cairo, f->left, f->top, f->width, f->height);
    cairo_stroke(cairo);
    cairo_set_font_size(cairo, TEXT_SIZE);
    chart_text(cairo, panel->x_label, f->left + f->width / 2, bottom + 35, 0.5);
    chart_text_upwards(cairo, panel->y_label, f->left - 64, f->top + f->height / 2, 0.5);
}

/* ---- curves ----------------------------------------------------------------------------------- */

static void set_style(cairo_t *cairo, int style)
{
    static const double dashes[CHART_SERIES_MAX][4] = {
        { 0, 0, 0, 0 }, { 7, 3, 7, 3 }, { 2, 3, 2, 3 }, { 9, 3, 2, 3 }, { 4, 4, 4, 4 }, { 12, 4, 12, 4 },
    };
    cairo_set_source_rgb(cairo, greys[style][0], greys[style][1], greys[style][2]);
    cairo_set_line_width(cairo, 1.8);
    cairo_set_dash(cairo, dashes[style], dashes[style][0] > 0 ? 4 : 0, 0);
}

static void draw_mark(cairo_t *cairo, int style, double x, double y)
{
    static const int corners[4] = { 24, 4, 3, 4 }; /* circle, square, triangle, diamond */
    static const double turns[4] = { 0, 0.125, -0.25, 0.25 };
    const double full_turn = 6.2831853, r = 4.4;
    const int kind = style % 4;
    cairo_set_dash(cairo, NULL, 0, 0);
    cairo_new_path(cairo);
    for (int i = 0; i < corners[kind]; ++i) {
        const double angle = full_turn * (turns[kind] + (double)i / corners[kind]);
        cairo_line_to(cairo, x + r * cos(angle), y + r * sin(angle));
    }
    cairo_fill(cairo);
}

static void draw_series(cairo_t *cairo, const struct frame *f, const struct chart_series *series)
{
    cairo_save(cairo);
    cairo_rectangle(cairo, f->left, f->top, f->width, f->height);
    cairo_clip(cairo);
    set_style(cairo, series->style);
    for (size_t i = 0; i < series->n; ++i) {
        const double x = x_place(f, on_axis(f->panel->x_axis, series->x[i]));
        const double y = y_place(f, on_axis(f->panel->y_axis, series->y[i]));
        if (i == 0) {
            cairo_move_to(cairo, x, y);
        } else {
            cairo_line_to(cairo, x, y);
        }
    }
    cairo_stroke(cairo);
    for (size_t i = 0; i < series->n && series->has_marks; ++i) {
        draw_mark(cairo, series->style, x_place(f, on_axis(f->panel->x_axis, series->x[i])),
                  y_place(f, on_axis(f->panel->y_axis, series->y[i])));
    }
    cairo_restore(cairo);
}

/* The corner where a legend of that size hides the fewest points. */
static void find_free_corner(const struct frame *f, double width, double height, double *left, double *top)
{
    int least = -1;
    for (int corner = 0; corner < 4; ++corner) {
        const double x0 = corner % 2 ? f->left + 8 : f->left + f->width - width - 8;
        const double y0 = corner / 2 ? f->top + f->height - height - 8 : f->top + 8;
        int hidden = 0;
        for (int s = 0; s < f->panel->n_series; ++s) {
            for (size_t i = 0; i < f->panel->series[s].n; ++i) {
                const double x = x_place(f, on_axis(f->panel->x_axis, f->panel->series[s].x[i]));
                const double y = y_place(f, on_axis(f->panel->y_axis, f->panel->series[s].y[i]));
                hidden += x > x0 - 8 && x < x0 + width + 8 && y > y0 - 8 && y < y0 + height + 8;
            }
        }
        if (least < 0 || hidden < least) {
            least = hidden;
            *left = x0;
            *top = y0;
        }
    }
}

static void draw_legend(cairo_t *cairo, const struct frame *f)
{
    const struct chart_panel *panel = f->panel;
    const double line = 19, sample = 26;
    double widest = 0;
    cairo_set_font_size(cairo, TEXT_SIZE - 1);
    for (int s = 0; s < panel->n_series; ++s) {
        widest = fmax(widest, chart_text_width(cairo, panel->series[s].label));
    }
    const double width = widest + sample + 18, height = panel->n_series * line + 8;
    double left = 0, top = 0;
    find_free_corner(f, width, height, &left, &top);
    cairo_set_source_rgba(cairo, 1, 1, 1, 0.85);
    cairo_rectangle(cairo, left, top, width, height);
    cairo_fill(cairo);
    for (int s = 0; s < panel->n_series; ++s) {
        const double y = top + 4 + line * (s + 0.5);
        set_style(cairo, panel->series[s].style);
        cairo_move_to(cairo, left + 6, y);
        cairo_line_to(cairo, left + 6 + sample, y);
        cairo_stroke(cairo);
        if (panel->series[s].has_marks) {
            draw_mark(cairo, panel->series[s].style, left + 6 + sample / 2, y);
        }
        cairo_set_dash(cairo, NULL, 0, 0);
        chart_ink(cairo);
        chart_text(cairo, panel->series[s].label, left + sample + 12, y, 0);
    }
}

/* ---- heat maps -------------------------------------------------------------------------------- */

static void draw_cell(cairo_t *cairo, const struct chart_heat *heat, int row, int column, double x, double y,
                      double width, double height)
{
    const double value = heat->values[row][column];
    const double part = isnan(value) ? 0 : fmin(fmax(value, -1), 1);
    if (part >= 0) {
        cairo_set_source_rgb(cairo, 0.97 - 0.92 * part, 0.98 - 0.80 * part, 1 - 0.58 * part);
    } else {
        cairo_set_source_rgb(cairo, 0.97 + 0.24 * part, 0.98 + 0.67 * part, 1 + 0.96 * part);
    }
    cairo_rectangle(cairo, x, y, width, height);
    cairo_fill_preserve(cairo);
    cairo_set_source_rgb(cairo, 0.75, 0.75, 0.78);
    cairo_set_line_width(cairo, 0.6);
    cairo_stroke(cairo);
    if (isnan(value)) {
        cairo_move_to(cairo, x, y);
        cairo_line_to(cairo, x + width, y + height);
        cairo_stroke(cairo);
    }
    if (fabs(part) > 0.5) {
        cairo_set_source_rgb(cairo, 1, 1, 1);
    } else {
        chart_ink(cairo);
    }
    chart_text(cairo, heat->numbers[row][column], x + width / 2, y + height / 2, 0.5);
}

/* The size at which the widest label is as wide as a column. */
static double label_size(cairo_t *cairo, const struct chart_heat *heat, double width)
{
    double widest = 1;
    cairo_set_font_size(cairo, TEXT_SIZE - 1);
    for (int column = 0; column < heat->columns; ++column) {
        widest = fmax(widest, chart_text_width(cairo, heat->column_labels[column]));
    }
    return fmax(6, fmin(TEXT_SIZE - 1, (TEXT_SIZE - 1) * (width - 3) / widest));
}

static void draw_heat(cairo_t *cairo, const struct frame *f)
{
    const struct chart_heat *heat = f->panel->heat;
    const double width = f->width / heat->columns, height = f->height / heat->rows;
    cairo_set_font_size(cairo, fmin(TEXT_SIZE - 1, width / 3.2));
    for (int row = 0; row < heat->rows; ++row) {
        for (int column = 0; column < heat->columns; ++column) {
            draw_cell(cairo, heat, row, column, f->left + column * width, f->top + row * height, width, height);
        }
    }
    chart_ink(cairo);
    cairo_set_font_size(cairo, label_size(cairo, heat, width));
    for (int row = 0; row < heat->rows; ++row) {
        chart_text(cairo, heat->row_labels[row], f->left - 5, f->top + (row + 0.5) * height, 1);
    }
    for (int column = 0; column < heat->columns; ++column) {
        chart_text(cairo, heat->column_labels[column], f->left + (column + 0.5) * width, f->top + f->height + 12, 0.5);
    }
    cairo_set_font_size(cairo, TEXT_SIZE - 1);
    chart_text(cairo, f->panel->x_label, f->left + f->width / 2, f->top + f->height + 32, 0.5);
    chart_text_upwards(cairo, f->panel->y_label, f->left - 64, f->top + f->height / 2, 0.5);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void draw_panel(cairo_t *cairo, const struct chart *chart, const struct chart_panel *panel, double left,
                       double top)
{
    struct frame f = { left + LEFT_ROOM,
                       top + TOP_ROOM,
                       panel_width(chart) - LEFT_ROOM - RIGHT_ROOM,
                       panel_height(chart) - TOP_ROOM - BOTTOM_ROOM,
                       0,
                       1,
                       0,
                       1,
                       panel };
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cairo, TEXT_SIZE);
    chart_ink(cairo);
    chart_text(cairo, panel->title, f.left + f.width / 2, top + TOP_ROOM / 2 + 2, 0.5);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    if (panel->heat) {
        draw_heat(cairo, &f);
        return;
    }
    find_range(panel, 0, &f.x_low, &f.x_high);
    find_range(panel, 1, &f.y_low, &f.y_high);
    draw_axes(cairo, &f);
    for (int s = 0; s < panel->n_series; ++s) {
        draw_series(cairo, &f, &panel->series[s]);
    }
    draw_legend(cairo, &f);
}

void chart_draw(cairo_t *cairo, const struct chart *chart)
{
    double width, height;
    chart_size(chart, &width, &height);
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cairo, TITLE_SIZE);
    chart_ink(cairo);
    chart_text(cairo, chart->title, width / 2, TITLE_ROOM / 2, 0.5);
    for (int i = 0; i < chart->n_panels; ++i) {
        draw_panel(cairo, chart, &chart->panels[i], (i % chart->columns) * panel_width(chart),
                   TITLE_ROOM + (i / chart->columns) * panel_height(chart));
    }
}
