/* Fills the kernels' argument struct from a problem and a call. */
#ifndef CLATTN_SRC_FILL_PARAMS_H
#define CLATTN_SRC_FILL_PARAMS_H

#include "cl/forward/forward_params.h"
#include "operation/call.h"

/* For a program that takes these groups of tensors (CLATTN_TAKES_*). Returns the bytes that it has of the params. */
size_t params_fill(const struct problem *problem, const struct call *call, uint32_t groups, clattn_params *params);

/* A number as PARAM_REAL of cl/common/types.clh reads it. */
clattn_i64 real_bits(clattn_type type, double value);

/* Rows or columns that share a scale, as kernels have them. */
static inline int scale_share(int64_t count)
{
    return count > 0 ? (int)count : CLATTN_ALL_SHARE;
}

#endif
