/* The matrix that a picture shows: one head's attention weights, or the average of all heads, of
 * one batch entry, with the tokens as labels. Made from a finished call; drawn by show.c and
 * plot.c. */
#ifndef CLATTN_TOOLS_HEAT_H
#define CLATTN_TOOLS_HEAT_H

#include "attention.h"

struct heat {
    int64_t rows, columns;
    double *value; /* [rows, columns], 0 to 1 */
    double largest;
    char **row_label, **column_label; /* UTF-8, clean */
    int has_tokens;                   /* 0: labels are positions */
    int has_sentences;                /* each batch entry has tokens of its own */
    char what[160];                   /* "layer 0 of 6, average of 12 heads" */
};

/* Whether --layer and --head, where given, are there: asked before anything is computed. */
int heat_check(const struct options *options, const clattn_problem *problem, struct failure *failure);

/* --layer and --head choose. The caller ends with heat_free, after failures too. */
int heat_make(const struct options *options, const struct inputs *inputs, const struct attention *attention,
              struct heat *heat, struct failure *failure);
void heat_free(struct heat *heat);

#endif
