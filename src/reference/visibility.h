/* Which keys a row may see: the host twin of cl/pair/mask.clh, without its bounds that skip blocks. */
#ifndef CLATTN_SRC_VISIBILITY_H
#define CLATTN_SRC_VISIBILITY_H

#include "operation/call.h"

/* One batch entry: what its lengths are and where its rows stand. */
struct sequence {
    int64_t query_len;
    int64_t stored_keys;        /* keys that exist for it */
    int64_t key_len;            /* those that may be seen: key lengths applied */
    int64_t offset;             /* row i stands at key position i + offset */
    int64_t query_row, key_row; /* first row in packed tensors, else 0 */
};

struct sequence sequence_of(const struct problem *problem, const struct call *call, int64_t b);

/* Index of element (b, h, i, c) of a tensor. */
int64_t place_index(const struct tensor_place *place, int64_t b, int64_t h, int64_t i, int64_t c);

/* The row that key j of a sequence is in, counted from its first: j, or another where rows are a ring. */
int64_t key_row_of(const struct problem *problem, int64_t j);

/* The page that key j of sequence b and of a key/value head is in; -1: a hole. */
int64_t key_page(const struct problem *problem, const struct call *call, int64_t b, int64_t kv_head, int64_t j);

/* Whether key j is still in memory. */
int key_is_kept(const struct problem *problem, const struct sequence *sequence, int64_t j);

/* Whether key j is still in memory, and in no hole of its pages. */
int key_is_stored(const struct problem *problem, const struct call *call, const struct sequence *sequence, int64_t b,
                  int64_t kv_head, int64_t j);

/* kept[j] of keys [0, count) of a row: 0 where dropout drops the weight. */
void dropout_of_row(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i,
                    int64_t count, unsigned char *kept);

/* allowed(b, h, i, j) of the formula, for j < stored_keys. A bias of -inf hides a key as a mask does. */
int key_is_allowed(const struct problem *problem, const struct call *call, const struct sequence *sequence, int64_t b,
                   int64_t h, int64_t i, int64_t j);

#endif
