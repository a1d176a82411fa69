/* Where an axis has ticks, and what stands there. Used by chart_draw.c. */
#ifndef CLATTN_TOOLS_LESSON_CHART_TICKS_H
#define CLATTN_TOOLS_LESSON_CHART_TICKS_H

#include "chart.h"

#define TICKS_MAX 24

struct tick {
    double at; /* on the axis */
    char label[24];
};

/* From low to high, of logarithms where the axis is logarithmic; how many. */
int chart_ticks(enum chart_axis axis, double low, double high, struct tick ticks[TICKS_MAX]);

#endif
