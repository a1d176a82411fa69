/* What the rows of ADDITIVE_TENSORS name: for the .c files of the operations whose tables have them. */
#ifndef CLATTN_SRC_ADDITIVE_ROWS_H
#define CLATTN_SRC_ADDITIVE_ROWS_H

#include "operation/rows.h"

enum additive_extent {
    EXTENT_ONE,
    EXTENT_BATCH,
    EXTENT_ROWS,
    EXTENT_KEYS,
    EXTENT_QUERY_DIM,
    EXTENT_KEY_DIM,
    EXTENT_VALUE_DIM,
    EXTENT_HIDDEN_DIM,
    ADDITIVE_EXTENTS
};

enum additive_element { ELEMENT_TYPE = OWN_ELEMENTS, ADDITIVE_ELEMENTS };

#endif
