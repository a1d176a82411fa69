/* float16 and bfloat16 to and from double, round to nearest even; NaN and infinities survive. Twins of
 * the conversions in cl/types.clh. */
#ifndef CLATTN_SRC_HALF_H
#define CLATTN_SRC_HALF_H

#include "clattn.h"

double half_to_double(uint16_t bits);
uint16_t half_from_double(double value);
double bfloat16_to_double(uint16_t bits);
uint16_t bfloat16_from_double(double value);

/* Element `index` of memory of a storage type. */
double type_load(clattn_type type, const void *data, int64_t index);
void type_store(clattn_type type, void *data, int64_t index, double value);

#endif
