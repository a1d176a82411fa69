/* A chart as a file, or in a page. */
#include <stdlib.h>
#include <string.h>

#include <cairo-svg.h>
#include <cairo.h>

#include "../files.h"
#include "../output.h"
#include "chart.h"
#include "chart_draw.h"

#define PNG_SCALE 1.5 /* pixels a point */

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
