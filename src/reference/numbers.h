/* Matrices of values that know their errors, for references of several steps. A sum of K products a b is off by no more
 * than
 *
 *     sqrt(sum (e_a b)^2 + (a e_b)^2) + (sqrt(K) + 8) sqrt(sum (a b)^2)         e: the errors of a and of b
 *
 * in units of rounding. */
#ifndef CLATTN_SRC_NUMBERS_H
#define CLATTN_SRC_NUMBERS_H

#include "clattn.h"

/* By two strides: either way round, or a part of the columns. */
struct numbers {
    double *value, *unit;
    int64_t rows, columns, row_stride, column_stride;
};

clattn_status numbers_no_memory(void);

/* Zeros; NULL where there is no memory. The caller frees. */
double *numbers_allocate(int64_t count);

/* Both arrays are the caller's, after a failure too. */
clattn_status numbers_create(struct numbers *numbers, int64_t rows, int64_t columns);
struct numbers numbers_turned(struct numbers a);

/* a b + bias is added to `result` [rows of a][columns of b]. A 0 in `a` adds nothing, whatever it meets. `bias` may be
 * NULL. */
void numbers_multiply(struct numbers a, struct numbers b, const double *bias, struct numbers result);

#endif
