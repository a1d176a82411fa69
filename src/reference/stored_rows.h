/* Rows of tensors as values: keys and values out of pages, rings and codes. */
#ifndef CLATTN_SRC_STORED_ROWS_H
#define CLATTN_SRC_STORED_ROWS_H

#include "reference/visibility.h"

/* Key j of a sequence, of one key/value head. */
struct stored_place {
    const struct problem *problem;
    const struct call *call;
    const struct sequence *sequence;
    int64_t b, kv_head, j;
};

/* Where a row is stored: its batch entry, or the page of the pool, and where it is in there. 0: nowhere. */
int stored_row_find(const struct stored_place *place, int64_t *b, int64_t *row);

/* The scale of a whole tensor, by that number; 1 where the call has none. */
float tensor_scale_of(const struct operands *operands, int id);

/* Row (b, head, row) of a tensor, by its number in the call's operation, as it is stored. */
void load_row(const struct call *call, int id, int64_t b, int64_t head, int64_t row, int64_t columns, double *to);

/* The key, or the value; zeros where it is in a hole or was overwritten. */
void load_stored_row(const struct stored_place *place, enum tensor_id id, int64_t columns, double *to);

#endif
