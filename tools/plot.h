/* The attention weights as a picture file, .png or .svg. */
#ifndef CLATTN_TOOLS_PLOT_H
#define CLATTN_TOOLS_PLOT_H

#include "heat.h"

/* A misuse unless the name ends in .png or .svg. */
int plot_check_name(const char *path, struct failure *failure);

/* `title` may be NULL. Temporary name, fsync, rename. */
int plot(const struct heat *heat, const char *title, const char *path, struct failure *failure);

#endif
