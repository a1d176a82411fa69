/* Which queries and keys of a measured problem meet. */
#ifndef CLATTN_TOOLS_BENCH_PAIRS_H
#define CLATTN_TOOLS_BENCH_PAIRS_H

#include "clattn.h"

/* Keys of a batch entry: even steps up to key_len in the last one, where the problem has key lengths; all in pages. */
int64_t bench_key_length(const clattn_problem *problem, int64_t batch_entry);

/* Pairs of a query and a key of the batch that may see each other, whatever a mask says. */
double bench_visible_pairs(const clattn_problem *problem);

#endif
