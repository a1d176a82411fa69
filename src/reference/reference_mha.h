/* The multi-head layer in float64 on the CPU, around the reference's attention. Intermediate results are
 * rounded to the storage type where the device stores them. */
#ifndef CLATTN_SRC_REFERENCE_MHA_H
#define CLATTN_SRC_REFERENCE_MHA_H

#include "operation/mha.h"

clattn_status reference_mha(const struct any_problem *problem, const struct operands *operands);

#endif
