/* Windows and row ranges, which say by bounds what a mask says key by key: the same outputs are asked for. Kernels skip
 * blocks of keys by these bounds, and know blocks that all rows see. */
#ifndef CLATTN_TESTS_SUPPORT_KEY_BOUNDS_H
#define CLATTN_TESTS_SUPPORT_KEY_BOUNDS_H

#include "exact_call.h"

/* All: 0, or -1 and e->what. */

/* A window on the last keys, and the first half of the keys, which are always visible: more than a block of keys or a
 * K/V split, and then a gap. And one that begins with the last key of a split: it has as many splits as any window of
 * its length. */
int window_is_a_mask(struct exact *e, int64_t query_len, int64_t key_len);

/* The second of two rows against a call of its own, to the last bit where keys are cut into K/V splits: the first row's
 * window begins with the last key of a split, the second's with the next split. */
int window_rows_stand_alone(struct exact *e, int64_t key_len);

/* Ranges of their own for each row and head: some are empty, some reach beyond the keys. */
int ranges_are_a_mask(struct exact *e, int64_t query_len, int64_t key_len);

#endif
