/* Storage types, as data: a row of the table in stored_types.c each, and the conversions of rows in host memory.
 *
 *     element types   one number after the other. int8, e4m3, e5m2, int4: codes, whose scales are tensors of the
 *                     caller; of int4 two columns are an element
 *     block types     32 or 64 columns a block, which begins with its own scales (ggml's formats)
 *
 * Where an element has several columns, a tensor is made of whole ones, and its offset and strides count columns, in
 * multiples of those of an element.
 *
 * The value of a code is rounded to float32 once, here and in kernels: their twin is cl/common/stored_types.clh. */
#ifndef CLATTN_SRC_STORED_TYPES_H
#define CLATTN_SRC_STORED_TYPES_H

#include "clattn.h"

#define STORED_TYPES (CLATTN_INT4 + 1)

/* Whether queries, outputs and biases may be of it: float32, float16, bfloat16, float64. */
int type_is_float(clattn_type type);

/* Whether its values are codes times scales that are a tensor of their own. */
int type_takes_scales(clattn_type type);

/* Whether its elements are blocks, which have scales of their own. */
int type_is_blocks(clattn_type type);

/* Bytes of an element, which may be a block, and how many columns it has: 1 but of blocks and int4. */
size_t type_element(clattn_type type, int64_t *columns);

/* Element `index` of memory of a type: a number, a code as a number (scale 1), or a value out of its block. */
double type_load(clattn_type type, const void *data, int64_t index);

/* Not of block types, whose values are stored by the row. */
void type_store(clattn_type type, void *data, int64_t index, double value);

/* A row of whole blocks. Returns the first column of a block of finite values that are not when they are read, since
 * float16 has no scale for them; -1: none. */
int64_t type_store_blocks(clattn_type type, int64_t columns, const float *values, void *row);

/* The value of a code: a product that is rounded to float32. */
double type_scaled(double code, float scale);

/* The nearest code of a value by its scale; a scale of 0 has code 0. */
double type_code(clattn_type type, float value, float scale);

#endif
