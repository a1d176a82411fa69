/* Block types, which begin with their own scales: how one block of each is read and written. How many bytes and columns
 * it has is in the table of stored_types.c. ggml_blocks.c has the formats whose codes are whole numbers, e2m1_blocks.c
 * those of 4-bit floats. */
#ifndef CLATTN_SRC_BLOCKS_H
#define CLATTN_SRC_BLOCKS_H

#include "clattn.h"

struct block_type {
    double (*load)(const uint8_t *block, int column);
    /* A value that is not finite leaves NaN or infinities. 0: so do finite ones. */
    int (*store)(const float *values, uint8_t *block);
};

extern const struct block_type q8_0_blocks, q4_0_blocks, q4_1_blocks, q5_0_blocks, q5_1_blocks;
extern const struct block_type mxfp4_ggml_blocks, nvfp4_ggml_blocks;

#endif
