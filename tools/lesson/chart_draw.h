/* Drawing a chart on a Cairo surface. */
#ifndef CLATTN_TOOLS_LESSON_CHART_DRAW_H
#define CLATTN_TOOLS_LESSON_CHART_DRAW_H

#include <cairo.h>

#include "chart.h"

void chart_size(const struct chart *chart, double *width, double *height); /* in points */
void chart_draw(cairo_t *cairo, const struct chart *chart);

#endif
