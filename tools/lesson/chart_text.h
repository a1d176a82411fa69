/* Text on a Cairo surface. */
#ifndef CLATTN_TOOLS_LESSON_CHART_TEXT_H
#define CLATTN_TOOLS_LESSON_CHART_TEXT_H

#include <cairo.h>

void chart_ink(cairo_t *cairo); /* the colour of text and frames */
double chart_text_width(cairo_t *cairo, const char *text);

/* `align` 0: begins at x, 0.5: its middle, 1: ends there; its middle height is y. */
void chart_text(cairo_t *cairo, const char *text, double x, double y, double align);
void chart_text_upwards(cairo_t *cairo, const char *text, double x, double y, double align);

#endif
