/* Where in the params of a program each tensor's place is, by the groups that the program takes (-D CLATTN_TAKES, bits
 * CLATTN_TAKES_*). C and OpenCL C both include this.
 *
 *     place    query: offset, stride[0], stride[1], ... | key: offset, stride[0], ... | those of the next that is taken
 *              CLATTN_AT_query                            CLATTN_AT_key
 *
 * A tensor that is not taken has the place of the first: whoever reads it, behind a HAS() that is 0, stays within. */
#ifndef CLATTN_FORWARD_PLACES_H
#define CLATTN_FORWARD_PLACES_H

#include "forward/forward_tensors.h"

/* The rows of the tensors that the program takes, in their order, and of the others. */
#define CLATTN_ROWS_WHERE_1(rows, T) rows(T)
#define CLATTN_ROWS_WHERE_0(rows, T)
#define CLATTN_ROWS_BUT_0(rows, T) rows(T)
#define CLATTN_ROWS_BUT_1(rows, T)
#define CLATTN_ROWS_BY(choice, is_taken, rows, T) CLATTN_ROWS_BY_NUMBER(choice, is_taken, rows, T)
#define CLATTN_ROWS_BY_NUMBER(choice, is_taken, rows, T) choice##is_taken(rows, T)
#define CLATTN_TAKEN_GROUP(name, T)                                                                                    \
    CLATTN_ROWS_BY(CLATTN_ROWS_WHERE_, CLATTN_IS_TAKEN_##name, CLATTN_TENSORS_##name, T)
#define CLATTN_LEFT_GROUP(name, T)                                                                                     \
    CLATTN_ROWS_BY(CLATTN_ROWS_BUT_, CLATTN_IS_TAKEN_##name, CLATTN_TENSORS_##name, T)
#define CLATTN_TAKEN_TENSORS(T) CLATTN_TENSORS_ALWAYS(T) CLATTN_TENSOR_GROUPS(CLATTN_TAKEN_GROUP, T)
#define CLATTN_LEFT_TENSORS(T) CLATTN_TENSOR_GROUPS(CLATTN_LEFT_GROUP, T)

/* Strides of the axes from the first on, by the rows' column. */
#define CLATTN_STRIDES_COLUMNS 4
#define CLATTN_STRIDES_STRIDED 4
#define CLATTN_STRIDES_ROWS 3
#define CLATTN_STRIDES_HEADS 2
#define CLATTN_STRIDES_DENSE 0

enum clattn_place_number {
#define TAKEN_ROW(id, name, axes, element, access, place, asked_by)                                                    \
    CLATTN_AT_##name, CLATTN_LAST_##name = CLATTN_AT_##name + CLATTN_STRIDES_##place,
    CLATTN_TAKEN_TENSORS(TAKEN_ROW)
#undef TAKEN_ROW
    CLATTN_PLACE_NUMBERS,
#define LEFT_ROW(id, name, axes, element, access, place, asked_by) CLATTN_AT_##name = 0,
    CLATTN_LEFT_TENSORS(LEFT_ROW)
#undef LEFT_ROW
};

#endif
