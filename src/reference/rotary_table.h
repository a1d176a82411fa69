/* Cosines and sines of positions, with the scalings of models. */
#ifndef CLATTN_SRC_ROTARY_TABLE_H
#define CLATTN_SRC_ROTARY_TABLE_H

#include "clattn_cache.h"

clattn_status rotary_table(const clattn_rotary_scaling *scaling, int64_t columns, int64_t rows,
                           const int64_t *positions, float *cosine, float *sine);

#endif
