/* Keys and values of a measured call as numbers, out of pages, rings and codes. */
#ifndef CLATTN_TOOLS_CHECK_KEYS_H
#define CLATTN_TOOLS_CHECK_KEYS_H

#include "clattn.h"

/* Those of a batch entry: key_len rows, which begin at row key_first where sequences are packed. */
struct check_keys {
    const clattn_problem *problem;
    const clattn_host_tensors *tensors;
    int64_t index, key_first, key_len;
};

/* Into [kv_heads, key_len, head_dim], or head_dim_v; pages have no holes, and a table for all heads. Keys of a ring
 * that were overwritten are what came after them: no row's window reaches them. */
void check_read_keys(const struct check_keys *keys, double *to);
void check_read_values(const struct check_keys *keys, double *to);

#endif
