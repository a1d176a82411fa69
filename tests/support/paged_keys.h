/* Keys and values in pages of a pool: another place for the same numbers, which must give the same bits. */
#ifndef CLATTN_TESTS_SUPPORT_PAGED_KEYS_H
#define CLATTN_TESTS_SUPPORT_PAGED_KEYS_H

#include "exact_call.h"

/* 0, or -1 and e->what. A causal call of two sequences of other lengths against the same with its keys cut into
 * shuffled pages, dense tables and one line for all, in one buffer and in three; whatever no sequence has is NaN. */
int pages_keep_bits(struct exact *e, int64_t query_len, int64_t key_len);

/* 0, or -1 and e->what. Pages that are no page of the pool, against a mask that hides their keys. */
int holes_are_a_mask(struct exact *e, int64_t query_len, int64_t key_len);

/* 0, or -1 and e->what. A hole in the middle of a ring's window, which has gone around, against the reference. */
int holes_of_rings_hide(struct exact *e);

#endif
