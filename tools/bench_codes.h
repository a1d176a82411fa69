/* Keys and values of a measured problem as they are stored, and what lies beside codes. */
#ifndef CLATTN_TOOLS_BENCH_CODES_H
#define CLATTN_TOOLS_BENCH_CODES_H

#include "bench_data.h"

struct bench_extents {
    int there;
    enum tensor_type type;
    int64_t shape[4];
};

/* The extents of keys, values, and what lies beside them; codes are bytes here, a row as long as it is in memory. */
struct bench_extents bench_cache_extents(const clattn_problem *problem, enum bench_tensor id);

/* Whether keys, or values, are codes, which bench_fill_codes() makes. */
int bench_is_codes(const clattn_problem *problem, enum bench_tensor id);

/* Rows of normal numbers, as they are stored, and what lies beside them where it is made of them; scales of int8, int4,
 * e4m3 and e5m2, which the problem has not, are 1. */
int bench_fill_codes(const clattn_problem *problem, struct bench_data *data, enum bench_tensor id,
                     struct failure *failure);

#endif
