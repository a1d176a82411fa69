#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cairo-svg.h>
#include <cairo.h>

#include "../files.h"
#include "../output.h"
#include "chart_draw.h"

#define PNG_SCALE 1.5 /* pixels a point */

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

/* ---- files ------------------------------------------------------------------------------------ */

/* What Cairo writes, in memory. */
struct picture {
    unsigned char *data;
    size_t bytes, capacity;
};

static cairo_status_t append(void *closure, const unsigned char *data, unsigned bytes)
{
    struct picture *picture = closure;
    if (picture->bytes + bytes > picture->capacity) {
        const size_t capacity = 2 * (picture->capacity + bytes);
        unsigned char *larger = realloc(picture->data, capacity);
        if (!larger) {
            return CAIRO_STATUS_NO_MEMORY;
        }
        picture->data = larger;
        picture->capacity = capacity;
    }
    memcpy(picture->data + picture->bytes, data, bytes);
    picture->bytes += bytes;
    return CAIRO_STATUS_SUCCESS;
}

static int render(const struct chart *chart, int as_svg, struct picture *picture, struct failure *failure)
{
    double width, height;
    chart_size(chart, &width, &height);
    memset(picture, 0, sizeof(*picture));
    cairo_surface_t *surface =
        as_svg ? cairo_svg_surface_create_for_stream(append, picture, width, height)
               : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * PNG_SCALE), (int)(height * PNG_SCALE));
    cairo_t *cairo = cairo_create(surface);
    if (!as_svg) {
        cairo_scale(cairo, PNG_SCALE, PNG_SCALE);
    }
    chart_draw(cairo, chart);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    if (status == CAIRO_STATUS_SUCCESS && !as_svg) {
        status = cairo_surface_write_to_png_stream(surface, append, picture);
    }
    cairo_surface_finish(surface);
    status = status == CAIRO_STATUS_SUCCESS ? cairo_surface_status(surface) : status;
    cairo_surface_destroy(surface);
    if (status != CAIRO_STATUS_SUCCESS || chart->failed || !picture->data) {
        free(picture->data);
        return failure_failed(failure, "picture: %s",
                              status != CAIRO_STATUS_SUCCESS ? cairo_status_to_string(status) : "out of memory");
    }
    return 0;
}

int chart_write(const struct chart *chart, const char *path, struct output *output, struct failure *failure)
{
    struct picture picture;
    const int as_svg = file_has_suffix(path, ".svg");
    if (!as_svg && !file_has_suffix(path, ".png")) {
        return failure_misuse(failure, "--plot %s: must end in .png or .svg", path);
    }
    if (render(chart, as_svg, &picture, failure) != 0) {
        return -1;
    }
    const struct file_part part = { picture.data, picture.bytes };
    const int result = output_write(output, path, 1, &part, failure);
    free(picture.data);
    return result;
}

int chart_data_uri(const struct chart *chart, struct text *html, struct failure *failure)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct picture picture;
    if (render(chart, 1, &picture, failure) != 0) {
        return -1;
    }
    text_append(html, "data:image/svg+xml;base64,");
    for (size_t i = 0; i < picture.bytes; i += 3) {
        const size_t left = picture.bytes - i;
        const unsigned bits = (unsigned)picture.data[i] << 16 | (left > 1 ? (unsigned)picture.data[i + 1] << 8 : 0) |
                              (left > 2 ? (unsigned)picture.data[i + 2] : 0);
        text_append(html, "%c%c%c%c", digits[bits >> 18], digits[bits >> 12 & 63],
                    left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '=');
    }
    free(picture.data);
    return html->failed ? failure_failed(failure, "picture: out of memory") : 0;
}
