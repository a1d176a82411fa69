/* Properties of tests/exact about rounding to the type of outputs. Each returns 0 where it holds; e->what says why it
 * does not. */
#ifndef CLATTN_TESTS_SUPPORT_EXACT_ROUNDING_H
#define CLATTN_TESTS_SUPPORT_EXACT_ROUNDING_H

#include "exact_call.h"

/* Two keys whose values are neighbours in the type: their mean lies in the middle. */
int ties_round_to_even(struct exact *e);

/* Outputs in float32, rounded, are those in the type: of many rows, and of few, as in decoding. */
int wide_out_of_many_rows_rounds(struct exact *e);
int wide_out_of_few_rows_rounds(struct exact *e);

#endif
