/* Small floats to and from double, round to nearest even; NaN survives. float16 and bfloat16: infinities too. e4m3 (the
 * finite kind: 0x7f is NaN, there is no infinity) and e5m2: what is past the largest number becomes that number. Twins
 * of the conversions in cl/common/types.clh and cl/common/stored_types.clh. */
#ifndef CLATTN_SRC_HALF_H
#define CLATTN_SRC_HALF_H

#include "clattn.h"

double half_to_double(uint16_t bits);
uint16_t half_from_double(double value);
double bfloat16_to_double(uint16_t bits);
uint16_t bfloat16_from_double(double value);

double e4m3_to_double(uint8_t bits);
uint8_t e4m3_from_double(double value);
double e5m2_to_double(uint8_t bits);
uint8_t e5m2_from_double(double value);

/* Four bits: no NaN, which becomes 0. */
double e2m1_to_double(uint8_t bits);
uint8_t e2m1_from_double(double value);

/* Powers of two, 2^(bits - 127), 255: NaN. The largest that is not above the value; the smallest for 0. */
double e8m0_to_double(uint8_t bits);
uint8_t e8m0_from_double(double value);

#endif
