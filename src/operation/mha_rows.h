/* What the rows of MHA_TENSORS name: for the .c files of the operations whose tables have them. */
#ifndef CLATTN_SRC_MHA_ROWS_H
#define CLATTN_SRC_MHA_ROWS_H

#include "operation/rows.h"

enum mha_extent {
    EXTENT_ONE,
    EXTENT_BATCH,
    EXTENT_ROWS,
    EXTENT_CONTEXT_ROWS,
    EXTENT_MODEL_DIM,
    EXTENT_CONTEXT_DIM,
    EXTENT_OUT_DIM,
    EXTENT_FIRST_DIM,
    EXTENT_KEY_DIM,
    EXTENT_VALUE_DIM,
    EXTENT_HEADS_DIM,
    EXTENT_QUERY_HEADS,
    EXTENT_WEIGHT_HEADS,
    MHA_EXTENTS
};

enum mha_element { ELEMENT_TYPE = OWN_ELEMENTS, ELEMENT_REAL, MHA_ELEMENTS };

#endif
