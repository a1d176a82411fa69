/* Rotary embedding in float64, and the tables it takes. */
#ifndef CLATTN_SRC_REFERENCE_ROTARY_H
#define CLATTN_SRC_REFERENCE_ROTARY_H

#include "operation/rotary.h"

/* One row of head_dim columns, in place, by the angles of row i of sequence b: what rotary and append mean. */
void reference_turn(const struct turning *turning, const struct operands *operands, int64_t b, int64_t i, double *row);

#endif
