/* Dropout in a slice of a problem: a call that says where it stands (first_batch, first_head, first_row,
 * first_key) must draw the bits that the whole would. */
#ifndef CLATTN_TESTS_SUPPORT_DROPOUT_SLICES_H
#define CLATTN_TESTS_SUPPORT_DROPOUT_SLICES_H

#include "exact_call.h"

/* Both: 0, or -1 and e->what. The whole is of `query_len` rows and `key_len` keys. */

/* One batch entry, the last heads, the last rows: computed by themselves, their outputs must be those that the
 * reference expects of the whole. */
int dropout_of_a_slice(struct exact *e, int64_t query_len, int64_t key_len);

/* The keys in two calls, merged. */
int dropout_of_cut_keys(struct exact *e, int64_t query_len, int64_t key_len);

#endif
