/* Some rows with some keys of a call, as a call of its own: what large ones are checked by. */
#ifndef CLATTN_TOOLS_CHECK_PART_H
#define CLATTN_TOOLS_CHECK_PART_H

#include "clattn.h"

#define CHECK_SAMPLES 3 /* of batch entries, of heads, of rows, of keys */

/* Sample n of a count: the first, the middle and the last. */
int64_t check_sample(int n, int64_t count);

struct check_part {
    int64_t first_row, rows, first_key, keys;
};

/* The problem of a part of one batch entry, which has `length` keys in all. *offset is its query_offsets, where it has
 * an alignment: those of a call, CLATTN_ALIGN_OFFSETS. */
clattn_problem check_part_problem(const clattn_problem *whole, int64_t length, const struct check_part *part,
                                  int32_t *offset);

#endif
