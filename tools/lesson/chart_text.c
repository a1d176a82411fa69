#include "chart_text.h"

void chart_ink(cairo_t *cairo)
{
    cairo_set_source_rgb(cairo, 0.13, 0.13, 0.15);
}

double chart_text_width(cairo_t *cairo, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text, &extents);
    return extents.x_advance;
}

void chart_text(cairo_t *cairo, const char *text, double x, double y, double align)
{
    cairo_font_extents_t font;
    cairo_font_extents(cairo, &font);
    cairo_move_to(cairo, x - align * chart_text_width(cairo, text), y + (font.ascent - font.descent) / 2);
    cairo_show_text(cairo, text);
}

void chart_text_upwards(cairo_t *cairo, const char *text, double x, double y, double align)
{
    cairo_save(cairo);
    cairo_translate(cairo, x, y);
    cairo_rotate(cairo, -1.5707963267948966);
    chart_text(cairo, text, 0, 0, align);
    cairo_restore(cairo);
}
