/* The gradients of a layer in float64, before they are rounded and before what is accumulated, with what errors are
 * counted in (in units of float32's rounding). */
#ifndef CLATTN_SRC_GRADIENT_DETAIL_H
#define CLATTN_SRC_GRADIENT_DETAIL_H

#include "operation/operands.h"
#include "reference/numbers.h"

struct gradient_detail {
    double *value[OPERANDS_MAX], *unit[OPERANDS_MAX]; /* by tensor; NULL: not asked for, or empty */
};

/* Zeros for the outputs of a call that are asked for, from tensor `first` on. After a failure too the caller frees. */
clattn_status gradient_detail_create(const struct operands *operands, int first, struct gradient_detail *detail);
void gradient_detail_free(struct gradient_detail *detail);

/* What stands in the detail for a tensor, from row `first_row` on. */
struct numbers gradient_detail_rows(const struct gradient_detail *detail, int id, int64_t first_row, int64_t rows,
                                    int64_t columns);

/* Rounds the gradients to `type`, into the call's host memory; added to what is there where the call reads it. */
void gradient_detail_store(const struct gradient_detail *detail, const struct operands *operands, clattn_type type);

#endif
