/* The attention weights as a drawing of characters on standard output. */
#ifndef CLATTN_TOOLS_SHOW_H
#define CLATTN_TOOLS_SHOW_H

#include "heat.h"

/* How the drawing may look. */
struct show_style {
    int width;  /* columns of the terminal */
    int colour; /* escape sequences are understood and wanted */
    int utf8;   /* else ASCII only */
};

/* From the terminal, COLUMNS, NO_COLOR, TERM and the locale. */
struct show_style show_style_of_terminal(void);

/* A matrix with percentages where it fits, with shades alone where that fits, else the tokens that
 * each row attends to most. */
void show(const struct heat *heat, const struct show_style *style);

#endif
