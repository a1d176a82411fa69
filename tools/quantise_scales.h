/* clattn quantise: what lies beside codes, given in files or made of the numbers. */
#ifndef CLATTN_TOOLS_QUANTISE_SCALES_H
#define CLATTN_TOOLS_QUANTISE_SCALES_H

#include "clattn.h"
#include "failure.h"
#include "options.h"
#include "tensor.h"

struct quantise_job {
    const struct options *options;
    clattn_type type;
    int back;
    struct tensor input, result;
    struct tensor scales, zero_points; /* of the input's number of axes, the last two in groups */
    double tensor_scale;
    int64_t group[2];      /* rows and columns that share a scale; 0: all */
    int64_t rows, columns; /* of the last two axes; columns as numbers */
    double largest_error, error_squares, value_squares;
};

/* Whether each row has scales that are made of it, and not the smallest that a group needs. */
int quantise_makes_scales(const struct quantise_job *job);

/* Scales and zero points that files give, or room for them. */
int quantise_scales_read(struct quantise_job *job, struct failure *failure);

/* The smallest scales by which no number of so many rows is beyond the codes. */
void quantise_scales_find(struct quantise_job *job, int64_t rows);

/* Those of row n, counted through all axes but the last. */
clattn_row_scales quantise_scales_of_row(const struct quantise_job *job, int64_t n);

#endif
