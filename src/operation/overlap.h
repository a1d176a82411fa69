/* What is written must not lie on top of itself, nor on what is read: as far as offsets and strides tell for sure. Rows
 * that only the device can count are taken for one. */
#ifndef CLATTN_SRC_OVERLAP_H
#define CLATTN_SRC_OVERLAP_H

#include "operation/operands.h"

/* Two elements of an output are not one, and what is written shares no memory with the workspace, whose size this is,
 * or with another tensor, unless it is in place (operands->in_place). After operands_check. */
clattn_status operands_check_apart(const struct operands *operands, size_t workspace_bytes);

/* Outputs share no memory with one another; inputs may, since they are copied before anything is written. */
clattn_status operands_check_outputs_apart(const struct operands *operands);

/* Each element of tensor a is the same element of tensor b, in the same buffer or memory. */
int operands_are_one_place(const struct operands *operands, int a, int b);

#endif
