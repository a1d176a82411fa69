#define _XOPEN_SOURCE 700
#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cairo-svg.h>
#include <cairo.h>

#include "files.h"
#include "labels.h"

/* Sizes in points of the picture. */
#define MATRIX_TARGET 560.0 /* the longer side of the matrix, where cells can be as large as wanted */
#define CELL_LARGEST 57.0   /* so that a sentence of five tokens fits a telephone, its letters readable */
#define CELL_SMALLEST 2.0
#define LABEL_SIZE 14.0
#define TITLE_SIZE 19.0
#define LABEL_ROOM_MAX 150.0
#define MARGIN 24.0
#define SCALE_WIDTH 18.0
#define SCALE_ROOM 96.0  /* right of the matrix, for the scale and its numbers */
#define SIDE_MAX 16000.0 /* cairo's pictures end at 32767 */

struct drawing {
    const struct heat *heat;
    int has_numbers;                       /* in the cells; where there are none, shades follow the square root, so that
                                            * the many small weights of a long text can be told apart */
    double cell, left, top, width, height; /* of the matrix */
    double label_room, label_room_above;
    int has_level_labels; /* above the columns, which are as wide as the widest; else they are read upwards */
    char *title;
};

/* ---- colours: one hue, steadily darker, so that grey prints tell the same ---- */

static void shade(cairo_t *cairo, double part)
{
    static const double stops[5][3] = {
        { 0.97, 0.98, 1.00 }, { 0.77, 0.86, 0.95 }, { 0.45, 0.68, 0.87 }, { 0.16, 0.44, 0.71 }, { 0.03, 0.18, 0.42 },
    };
    double at = fmin(fmax(part, 0), 1) * 4;
    int i = at >= 4 ? 3 : (int)at;
    double t = at - i;
    cairo_set_source_rgb(cairo, stops[i][0] + t * (stops[i + 1][0] - stops[i][0]),
                         stops[i][1] + t * (stops[i + 1][1] - stops[i][1]),
                         stops[i][2] + t * (stops[i + 1][2] - stops[i][2]));
}

static void ink(cairo_t *cairo)
{
    cairo_set_source_rgb(cairo, 0.13, 0.13, 0.15);
}

/* ---- text ---- */

static double text_width(cairo_t *cairo, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text, &extents);
    return extents.x_advance;
}

/* `align` 0: begins at x, 0.5: its middle, 1: ends there; its middle height is y. */
static void put_text(cairo_t *cairo, const char *text, double x, double y, double align)
{
    cairo_font_extents_t font;
    cairo_font_extents(cairo, &font);
    cairo_move_to(cairo, x - align * text_width(cairo, text), y + (font.ascent - font.descent) / 2);
    cairo_show_text(cairo, text);
}

static void put_text_upwards(cairo_t *cairo, const char *text, double x, double y, double align)
{
    cairo_save(cairo);
    cairo_translate(cairo, x, y);
    cairo_rotate(cairo, -1.5707963267948966);
    put_text(cairo, text, 0, 0, align);
    cairo_restore(cairo);
}

/* A label that fits the room for labels: cut, with an ellipsis. The caller frees it. */
static char *fit_label(cairo_t *cairo, const char *label, double room)
{
    size_t length = strlen(label);
    char *fitted = malloc(length + 4);
    int columns = utf8_columns(label);
    if (!fitted) {
        return NULL;
    }
    memcpy(fitted, label, length + 1);
    while (columns > 1 && text_width(cairo, fitted) > room) {
        size_t bytes = utf8_fit(label, --columns);
        memcpy(fitted, label, bytes);
        memcpy(fitted + bytes, "\xe2\x80\xa6", 4);
    }
    return fitted;
}

static double widest_label(cairo_t *cairo, char *const *labels, int64_t n)
{
    double most = 10;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, text_width(cairo, labels[i]));
    }
    return fmin(most, LABEL_ROOM_MAX);
}

/* ---- parts of the picture ---- */

static void draw_cells(cairo_t *cairo, const struct drawing *drawing)
{
    const struct heat *heat = drawing->heat;
    char number[16];
    cairo_set_font_size(cairo, drawing->cell >= 48 ? 16 : 11);
    for (int64_t i = 0; i < heat->rows; i++) {
        for (int64_t j = 0; j < heat->columns; j++) {
            double value = heat->value[i * heat->columns + j];
            double part = heat->largest > 0 ? value / heat->largest : 0;
            double x = drawing->left + (double)j * drawing->cell;
            double y = drawing->top + (double)i * drawing->cell;
            shade(cairo, drawing->has_numbers ? part : sqrt(part));
            cairo_rectangle(cairo, x, y, drawing->cell, drawing->cell);
            cairo_fill(cairo);
            if (!drawing->has_numbers) {
                continue;
            }
            snprintf(number, sizeof number, "%.0f%%", value * 100);
            if (part > 0.55) {
                cairo_set_source_rgb(cairo, 1, 1, 1);
            } else {
                ink(cairo);
            }
            put_text(cairo, number, x + drawing->cell / 2, y + drawing->cell / 2, 0.5);
        }
    }
    ink(cairo);
    cairo_set_line_width(cairo, 0.8);
    cairo_rectangle(cairo, drawing->left, drawing->top, drawing->width, drawing->height);
    cairo_stroke(cairo);
}

/* Every label where there is room for it, else every 2nd, 5th, 10th, ... */
static int64_t label_step(double cell)
{
    static const int64_t steps[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000 };
    size_t i = 0;
    while (i + 1 < sizeof steps / sizeof *steps && (double)steps[i] * cell < LABEL_SIZE + 1) {
        i++;
    }
    return steps[i];
}

static void draw_labels(cairo_t *cairo, const struct drawing *drawing)
{
    const struct heat *heat = drawing->heat;
    int64_t step = label_step(drawing->cell);
    cairo_set_font_size(cairo, LABEL_SIZE);
    for (int64_t i = 0; i < heat->rows; i += step) {
        char *label = fit_label(cairo, heat->row_label[i], drawing->label_room);
        if (label) {
            put_text(cairo, label, drawing->left - 7, drawing->top + ((double)i + 0.5) * drawing->cell, 1);
        }
        free(label);
    }
    for (int64_t j = 0; j < heat->columns; j += step) {
        char *label = fit_label(cairo, heat->column_label[j], drawing->label_room);
        double x = drawing->left + ((double)j + 0.5) * drawing->cell;
        if (label && drawing->has_level_labels) {
            put_text(cairo, label, x, drawing->top - 12, 0.5);
        } else if (label) {
            put_text_upwards(cairo, label, x, drawing->top - 7, 0);
        }
        free(label);
    }
}

static void draw_axis_names(cairo_t *cairo, const struct drawing *drawing)
{
    double above = drawing->top - drawing->label_room_above - 20, beside = drawing->left - drawing->label_room - 22;
    cairo_set_font_size(cairo, LABEL_SIZE);
    cairo_set_source_rgb(cairo, 0.35, 0.35, 0.4);
    put_text(cairo, "key: the token that is looked at", drawing->left, above, 0);
    put_text_upwards(cairo, "query: the token that looks", beside, drawing->top + drawing->height, 0);
}

/* What shades mean, where no numbers say it: they follow the square root. */
static void draw_scale(cairo_t *cairo, const struct drawing *drawing)
{
    double x = drawing->left + drawing->width + 22, height = fmax(fmin(drawing->height, 300), 60);
    char number[32];
    for (int i = 0; i < 100; i++) {
        shade(cairo, (i + 0.5) / 100);
        cairo_rectangle(cairo, x, drawing->top + height * (99 - i) / 100, SCALE_WIDTH, height / 100 + 0.5);
        cairo_fill(cairo);
    }
    ink(cairo);
    cairo_set_line_width(cairo, 0.8);
    cairo_rectangle(cairo, x, drawing->top, SCALE_WIDTH, height);
    cairo_stroke(cairo);
    cairo_set_font_size(cairo, 12);
    for (int i = 0; i <= 4; i++) {
        double y = drawing->top + height * (4 - i) / 4, part = i / 4.0;
        snprintf(number, sizeof number, "%.2g%%", drawing->heat->largest * 100 * part * part);
        cairo_move_to(cairo, x + SCALE_WIDTH, y);
        cairo_line_to(cairo, x + SCALE_WIDTH + 4, y);
        cairo_stroke(cairo);
        put_text(cairo, number, x + SCALE_WIDTH + 8, y, 0);
    }
}

static void draw_title(cairo_t *cairo, const struct drawing *drawing, double width)
{
    double size = TITLE_SIZE;
    ink(cairo);
    cairo_set_font_size(cairo, size);
    if (drawing->title) {
        char *title = fit_label(cairo, drawing->title, width - 2 * MARGIN);
        if (title) {
            put_text(cairo, title, MARGIN, MARGIN + 4, 0);
        }
        free(title);
    }
    cairo_set_font_size(cairo, LABEL_SIZE);
    cairo_set_source_rgb(cairo, 0.35, 0.35, 0.4);
    put_text(cairo, drawing->heat->what, MARGIN, MARGIN + (drawing->title ? 26 : 4), 0);
}

/* ---- the whole ---- */

static cairo_t *begin(cairo_surface_t *surface)
{
    cairo_t *cairo = cairo_create(surface);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, LABEL_SIZE);
    return cairo;
}

/* Measures the labels and fixes where everything is; *width and *height are the picture's. */
static void arrange(struct drawing *drawing, double *width, double *height)
{
    const struct heat *heat = drawing->heat;
    double longest = (double)(heat->rows > heat->columns ? heat->rows : heat->columns);
    cairo_surface_t *scratch = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cairo = begin(scratch);
    drawing->label_room =
        fmax(widest_label(cairo, heat->row_label, heat->rows), widest_label(cairo, heat->column_label, heat->columns));
    drawing->cell = fmin(fmax(MATRIX_TARGET / longest, CELL_SMALLEST), CELL_LARGEST);
    drawing->has_numbers = drawing->cell >= 34;
    drawing->has_level_labels = widest_label(cairo, heat->column_label, heat->columns) <= drawing->cell - 6;
    drawing->label_room_above = drawing->has_level_labels ? LABEL_SIZE + 2 : drawing->label_room;
    drawing->width = drawing->cell * (double)heat->columns;
    drawing->height = drawing->cell * (double)heat->rows;
    drawing->left = MARGIN + drawing->label_room + 34;
    drawing->top = MARGIN + (drawing->title ? 74 : 52) + drawing->label_room_above;
    *width = drawing->left + drawing->width + (drawing->has_numbers ? 0 : SCALE_ROOM) + MARGIN;
    *height = drawing->top + fmax(drawing->height, 60) + MARGIN;
    *width = fmax(*width, text_width(cairo, heat->what) + 2 * MARGIN);
    cairo_destroy(cairo);
    cairo_surface_destroy(scratch);
}

struct bytes {
    char *data;
    size_t length, capacity;
};

static cairo_status_t collect(void *closure, const unsigned char *data, unsigned int length)
{
    struct bytes *bytes = closure;
    if (length > bytes->capacity - bytes->length) {
        size_t capacity = (bytes->length + length) * 2;
        char *larger = realloc(bytes->data, capacity);
        if (!larger) {
            return CAIRO_STATUS_NO_MEMORY;
        }
        bytes->data = larger;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
    return CAIRO_STATUS_SUCCESS;
}

static cairo_status_t draw(const struct drawing *drawing, cairo_surface_t *surface, double width, double height)
{
    cairo_t *cairo = begin(surface);
    cairo_status_t status;
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_rectangle(cairo, 0, 0, width, height);
    cairo_fill(cairo);
    draw_title(cairo, drawing, width);
    draw_axis_names(cairo, drawing);
    draw_cells(cairo, drawing);
    ink(cairo);
    draw_labels(cairo, drawing);
    if (!drawing->has_numbers) {
        draw_scale(cairo, drawing);
    }
    status = cairo_status(cairo);
    cairo_destroy(cairo);
    return status;
}

static cairo_status_t render(const struct drawing *drawing, int is_svg, double width, double height,
                             struct bytes *bytes)
{
    cairo_surface_t *surface =
        is_svg ? cairo_svg_surface_create_for_stream(collect, bytes, width, height)
               : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width), (int)ceil(height));
    cairo_status_t status = cairo_surface_status(surface);
#if CAIRO_VERSION >= CAIRO_VERSION_ENCODE(1, 16, 0)
    if (is_svg) {
        cairo_svg_surface_set_document_unit(surface, CAIRO_SVG_UNIT_PX);
    }
#endif
    if (status == CAIRO_STATUS_SUCCESS) {
        status = draw(drawing, surface, width, height);
    }
    if (status == CAIRO_STATUS_SUCCESS && !is_svg) {
        status = cairo_surface_write_to_png_stream(surface, collect, bytes);
    }
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) {
        status = cairo_surface_status(surface);
    }
    cairo_surface_destroy(surface);
    return status;
}

int plot_is_built(void)
{
    return 1;
}

int plot_check_name(const char *path, struct failure *failure)
{
    if (file_has_suffix(path, ".png") || file_has_suffix(path, ".svg")) {
        return 0;
    }
    return failure_misuse(failure, "--plot %s: must end in .png or .svg", path);
}

int plot(const struct heat *heat, const char *title, const char *path, struct failure *failure)
{
    struct drawing drawing = { .heat = heat, .title = title ? utf8_clean(title) : NULL };
    struct bytes bytes = { NULL, 0, 0 };
    double width, height;
    cairo_status_t status;
    int result;
    arrange(&drawing, &width, &height);
    if (width > SIDE_MAX || height > SIDE_MAX) {
        result = failure_misuse(failure,
                                "--plot %s: %lld x %lld weights: too many for a picture; write them "
                                "with --weights",
                                path, (long long)heat->rows, (long long)heat->columns);
    } else if ((status = render(&drawing, file_has_suffix(path, ".svg"), width, height, &bytes)) !=
               CAIRO_STATUS_SUCCESS) {
        result = failure_failed(failure, "--plot %s: cairo: %s", path, cairo_status_to_string(status));
    } else {
        struct file_part part = { bytes.data, bytes.length };
        result = file_write(path, 1, &part, failure);
    }
    free(bytes.data);
    free(drawing.title);
    return result;
}
