/* Masks of blocks made of a mask text: a problem and a call of attention, of which only the text, its tensors and the
 * lengths are looked at, and whose block mask is written. */
#ifndef CLATTN_SRC_BLOCK_MASK_H
#define CLATTN_SRC_BLOCK_MASK_H

#include "operation/problem.h"

extern const struct operation operation_block_mask;

clattn_status reference_block_mask(const struct any_problem *problem, const struct operands *call);

#endif
