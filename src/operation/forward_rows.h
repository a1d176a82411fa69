/* What the rows of cl/forward/forward_tensors.h name: for the .c files of the operations whose tables have them. */
#ifndef CLATTN_SRC_FORWARD_ROWS_H
#define CLATTN_SRC_FORWARD_ROWS_H

#include "operation/rows.h"

/* What rows and kernels call the axes. */
enum forward_extent {
    EXTENT_ONE, /* the tensor has no such axis */
    EXTENT_BATCH,
    EXTENT_PACKS,      /* varlen: 1, sequences follow one another on the row axis; else the batch */
    EXTENT_KEY_PACKS,  /* of a pool: its pages, each of KEY_ROWS rows; else PACKS */
    EXTENT_FIRST_POOL, /* the same of the pool's first buffer, where it has several; */
    EXTENT_POOL_1,     /* and of the others */
    EXTENT_POOL_2,
    EXTENT_POOL_3,
    EXTENT_QUERY_HEADS,
    EXTENT_KV_HEADS,
    EXTENT_QUERY_ROWS, /* varlen: of all sequences, where the seams can be read; else QUERY_LEN */
    EXTENT_KEY_ROWS,
    EXTENT_QUERY_LEN,
    EXTENT_KEY_LEN,
    EXTENT_MASK_KEYS, /* the mask's key axis may be shorter */
    EXTENT_BIAS_KEYS,
    EXTENT_HEAD_DIM,
    EXTENT_HEAD_DIM_V,
    EXTENT_KEY_SCALE_ROWS,
    EXTENT_KEY_SCALE_COLUMNS,
    EXTENT_VALUE_SCALE_ROWS,
    EXTENT_VALUE_SCALE_COLUMNS,
    EXTENT_SEAMS,  /* batch + 1 */
    EXTENT_TABLES, /* page tables: one for each sequence, or one line for all */
    EXTENT_TABLE_PAGES,
    EXTENT_BLOCK_MASK_ROWS, /* blocks of rows, and of keys, of the block mask */
    EXTENT_BLOCK_MASK_KEYS,
    EXTENT_KEY_LIST_BLOCKS, /* blocks of rows that share a list of keys */
    EXTENT_KEY_LIST_KEYS,
#define EXTENT_OF_CODE(number) EXTENT_CODE_##number,
    CLATTN_CODE_TENSORS(EXTENT_OF_CODE)
#undef EXTENT_OF_CODE
        FORWARD_EXTENTS
};

enum forward_element {
    ELEMENT_QUERY = OWN_ELEMENTS,
    ELEMENT_KEY,
    ELEMENT_VALUE,
    ELEMENT_OUT,
    ELEMENT_BIAS,
    ELEMENT_WEIGHTS,
    ELEMENT_SLOPE,
    ELEMENT_SINK,
    ELEMENT_KEY_SCALE,
    ELEMENT_VALUE_SCALE,
#define ELEMENT_OF_CODE(number) ELEMENT_CODE_##number,
    CLATTN_CODE_TENSORS(ELEMENT_OF_CODE)
#undef ELEMENT_OF_CODE
        FORWARD_ELEMENTS
};

#endif
