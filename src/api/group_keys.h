/* Parts of a call that have some of its keys, made by the schedule of ranks (operation/ring.h), and the sum of their
 * results, in float64, in the order of keys. */
#ifndef CLATTN_SRC_GROUP_KEYS_H
#define CLATTN_SRC_GROUP_KEYS_H

#include "api/group_cut.h"

/* How many keys there are to be divided: as many as the longest of key_lengths says; of gradients all, since those of
 * keys behind it are written too, as 0. 1: the call cannot be divided so. */
int64_t group_keys(const struct group_call *whole);

/* Makes a part, whose tensors begin where its keys do, that of keys [first, first + count). */
clattn_status group_keys_cut(const struct group_call *whole, int64_t first, int64_t count, struct group_part *part);

/* out and lse, or dquery, of the whole. */
clattn_status group_keys_sum(const struct group_parts *parts);

#endif
