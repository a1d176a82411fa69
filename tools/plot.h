/* The attention weights as a picture file, .png or .svg. Without cairo, plot_none.c is there in place of plot.c and of
 * the lessons' chart_draw.c, chart_file.c and chart_text.c: each picture that is asked for is a misuse that says so. */
#ifndef CLATTN_TOOLS_PLOT_H
#define CLATTN_TOOLS_PLOT_H

#include "heat.h"

int plot_is_built(void);

/* A misuse unless the name ends in .png or .svg. */
int plot_check_name(const char *path, struct failure *failure);

/* `title` may be NULL. Temporary name, fsync, rename. */
int plot(const struct heat *heat, const char *title, const char *path, struct failure *failure);

#endif
