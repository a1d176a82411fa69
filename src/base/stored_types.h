/* Storage types, as data: a row of the table in stored_types.c each, and the conversions of rows in host memory.
 *
 *     element types   one number after the other. int8, e4m3, e5m2, int4, u8, u4, mxfp8, mxfp4, nvfp4: codes, whose
 *                     scales are tensors of the caller; where a code has four bits, two columns are an element
 *     block types     32 or 64 columns a block, which begins with its own scales (ggml's formats)
 *
 * Where an element has several columns, a tensor is made of whole ones, and its offset and strides count columns, in
 * multiples of those of an element.
 *
 * The value of a code is rounded to float32 once, here and in kernels: their twin is cl/common/stored_types.clh. */
#ifndef CLATTN_SRC_STORED_TYPES_H
#define CLATTN_SRC_STORED_TYPES_H

#include "clattn.h"

#define STORED_TYPES (CLATTN_E8M0 + 1)
#define CACHE_TYPES (CLATTN_NVFP4 + 1) /* those that keys and values may be of: not e8m0, which is of scales */

/* Whether queries, outputs and biases may be of it: float32, float16, bfloat16, float64. */
int type_is_float(clattn_type type);

/* Whether its values are codes times scales that are a tensor of their own. */
int type_takes_scales(clattn_type type);

/* Whether its elements are blocks, which have scales of their own. */
int type_is_blocks(clattn_type type);

/* What the scales of such a type are stored as: float32; of mxfp8 and mxfp4 e8m0, of nvfp4 e4m3. */
clattn_type type_of_scales(clattn_type type);

/* How many columns share a scale where the type says so, whose rows have scales of their own; 0: as a problem says. */
int64_t type_scale_columns(clattn_type type);

/* Whether it has zero points beside its scales (u8, u4), or a scale of the whole tensor (nvfp4). */
int type_has_zero_points(clattn_type type);
int type_has_tensor_scale(clattn_type type);

/* The largest code of a type whose scales are made of values; 0 of others. */
float type_most_code(clattn_type type);

/* Bytes of an element, which may be a block, and how many columns it has: 1 but of blocks and codes of four bits. */
size_t type_element(clattn_type type, int64_t *columns);

/* Element `index` of memory of a type: a number, a code as a number (scale 1), or a value out of its block. */
double type_load(clattn_type type, const void *data, int64_t index);

/* Not of block types, whose values are stored by the row. */
void type_store(clattn_type type, void *data, int64_t index, double value);

/* A row of whole blocks. Returns the first column of a block of finite values that are not when they are read, since
 * float16 has no scale for them; -1: none. */
int64_t type_store_blocks(clattn_type type, int64_t columns, const float *values, void *row);

/* How a code is a value: by what. */
struct code_scale {
    float scale, zero_point;
};

/* Number `index` of scales, times the scale of the tensor (1 where there is none): rounded to float32. */
float type_scale(clattn_type type, const void *scales, int64_t index, float tensor_scale);

/* The value of a code: a difference, and a product, that are rounded to float32. */
double type_scaled(double code, struct code_scale by);

/* What type_store() makes the nearest code of a value of; a scale of 0 has code 0. */
double type_code(clattn_type type, float value, struct code_scale by);

/* The scale, and zero point, that quantising gives `count` values which share them; the scale is stored as number
 * `index`. For types whose scales are made: those of blocks, and with zero points. */
struct code_scale type_make_scale(clattn_type type, const float *values, int64_t count, float tensor_scale,
                                  void *scales, int64_t index);
int type_makes_scales(clattn_type type);

#endif
