/* Where in the params of a program each tensor's place is, by the groups that the program takes (-D CLATTN_TAKES, bits
 * CLATTN_TAKES_*; all where it is not said, and in C). C and OpenCL C both include this.
 *
 *     place    query: offset, stride[0], stride[1], ... | key: offset, stride[0], ... | those of the next that is taken
 *              CLATTN_AT_query                            CLATTN_AT_key
 *
 * A tensor that is not taken has the place of the first: whoever reads it, behind a HAS() that is 0, stays within. */
#ifndef CLATTN_FORWARD_PLACES_H
#define CLATTN_FORWARD_PLACES_H

#include "forward/forward_tensors.h"

#ifndef CLATTN_TAKES
#define CLATTN_TAKES CLATTN_TAKES_ALL
#endif
#define CLATTN_TENSORS_NONE(T)

#if CLATTN_TAKES & CLATTN_TAKES_LSE
#define CLATTN_TAKEN_LSE CLATTN_TENSORS_LSE
#define CLATTN_LEFT_LSE CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_LSE CLATTN_TENSORS_NONE
#define CLATTN_LEFT_LSE CLATTN_TENSORS_LSE
#endif
#if CLATTN_TAKES & CLATTN_TAKES_PAIRS
#define CLATTN_TAKEN_PAIRS CLATTN_TENSORS_PAIRS
#define CLATTN_LEFT_PAIRS CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_PAIRS CLATTN_TENSORS_NONE
#define CLATTN_LEFT_PAIRS CLATTN_TENSORS_PAIRS
#endif
#if CLATTN_TAKES & CLATTN_TAKES_ROWS
#define CLATTN_TAKEN_ROWS CLATTN_TENSORS_ROWS
#define CLATTN_LEFT_ROWS CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_ROWS CLATTN_TENSORS_NONE
#define CLATTN_LEFT_ROWS CLATTN_TENSORS_ROWS
#endif
#if CLATTN_TAKES & CLATTN_TAKES_PAGES
#define CLATTN_TAKEN_PAGES CLATTN_TENSORS_PAGES
#define CLATTN_LEFT_PAGES CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_PAGES CLATTN_TENSORS_NONE
#define CLATTN_LEFT_PAGES CLATTN_TENSORS_PAGES
#endif
#if CLATTN_TAKES & CLATTN_TAKES_RANGES
#define CLATTN_TAKEN_RANGES CLATTN_TENSORS_RANGES
#define CLATTN_LEFT_RANGES CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_RANGES CLATTN_TENSORS_NONE
#define CLATTN_LEFT_RANGES CLATTN_TENSORS_RANGES
#endif
#if CLATTN_TAKES & CLATTN_TAKES_SCALES
#define CLATTN_TAKEN_SCALES CLATTN_TENSORS_SCALES
#define CLATTN_LEFT_SCALES CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_SCALES CLATTN_TENSORS_NONE
#define CLATTN_LEFT_SCALES CLATTN_TENSORS_SCALES
#endif
#if CLATTN_TAKES & CLATTN_TAKES_ZEROS
#define CLATTN_TAKEN_ZEROS CLATTN_TENSORS_ZEROS
#define CLATTN_LEFT_ZEROS CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_ZEROS CLATTN_TENSORS_NONE
#define CLATTN_LEFT_ZEROS CLATTN_TENSORS_ZEROS
#endif
#if CLATTN_TAKES & CLATTN_TAKES_BLOCKS
#define CLATTN_TAKEN_BLOCKS CLATTN_TENSORS_BLOCKS
#define CLATTN_LEFT_BLOCKS CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_BLOCKS CLATTN_TENSORS_NONE
#define CLATTN_LEFT_BLOCKS CLATTN_TENSORS_BLOCKS
#endif
#if CLATTN_TAKES & CLATTN_TAKES_LISTS
#define CLATTN_TAKEN_LISTS CLATTN_TENSORS_LISTS
#define CLATTN_LEFT_LISTS CLATTN_TENSORS_NONE
#else
#define CLATTN_TAKEN_LISTS CLATTN_TENSORS_NONE
#define CLATTN_LEFT_LISTS CLATTN_TENSORS_LISTS
#endif

/* The rows of the tensors that the program takes, in their order, and of the others. */
#define CLATTN_TAKEN_TENSORS(T)                                                                                        \
    CLATTN_TENSORS_ALWAYS(T) CLATTN_TAKEN_LSE(T) CLATTN_TAKEN_PAIRS(T) CLATTN_TAKEN_ROWS(T) CLATTN_TAKEN_PAGES(T)      \
    CLATTN_TAKEN_RANGES(T) CLATTN_TAKEN_SCALES(T) CLATTN_TAKEN_ZEROS(T) CLATTN_TAKEN_BLOCKS(T)      \
    CLATTN_TAKEN_LISTS(T)
#define CLATTN_LEFT_TENSORS(T)                                                                                         \
    CLATTN_LEFT_LSE(T) CLATTN_LEFT_PAIRS(T) CLATTN_LEFT_ROWS(T) CLATTN_LEFT_PAGES(T) CLATTN_LEFT_RANGES(T)             \
    CLATTN_LEFT_SCALES(T) CLATTN_LEFT_ZEROS(T) CLATTN_LEFT_BLOCKS(T) CLATTN_LEFT_LISTS(T)

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
