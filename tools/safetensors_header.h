/* The header of a .safetensors file: reads its JSON into entries and notes. Memory has a bound, about six times the
 * header. */
#ifndef CLATTN_TOOLS_SAFETENSORS_HEADER_H
#define CLATTN_TOOLS_SAFETENSORS_HEADER_H

#include "safetensors.h"

/* By enum tensor_type. */
extern const char *const safetensors_type_names[TENSOR_TYPES];
extern const char safetensors_metadata_key[];

/* "F32, F16, ...": what is read. Returns list. */
#define SAFETENSORS_TYPE_LIST 96
const char *safetensors_type_list(char list[SAFETENSORS_TYPE_LIST]);

/* Reads file->header, which ends with 0 behind `bytes` bytes, into its entries and notes, whose texts stay in it. */
int safetensors_header_read(struct safetensors *file, size_t bytes, struct failure *failure);

#endif
