/* Norms and rotary embedding of a row in float64. */
#ifndef CLATTN_SRC_REFERENCE_ROTARY_H
#define CLATTN_SRC_REFERENCE_ROTARY_H

#include "operation/rotary.h"

/* One row of `columns` columns, in place, by its RMS norm. `weights` is the number of their tensor, or NO_WEIGHTS. */
#define NO_WEIGHTS (-1)
void reference_norm(const struct norms *norms, const struct operands *operands, int weights, int64_t columns,
                    double *row);

/* One row of head_dim columns, in place, by the angles of row i of sequence b: what rotary and append mean. */
void reference_turn(const struct turning *turning, const struct operands *operands, int64_t b, int64_t i, double *row);

#endif
