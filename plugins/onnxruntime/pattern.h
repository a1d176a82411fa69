/* Attention that is written from product to product, found from its softmax. */
#ifndef CLATTN_ORT_PATTERN_H
#define CLATTN_ORT_PATTERN_H

#include "claim.h"

/* Its inputs: BIAS is added, HIDDEN is a boolean mask, which attributes.hides_where_true explains. */
enum { PATTERN_QUERY, PATTERN_KEY, PATTERN_VALUE, PATTERN_BIAS, PATTERN_HIDDEN };

/* Claims the nodes around this softmax; kind NULL: none of attention. */
OrtStatus *pattern_gather(const struct node *softmax, struct claim *claim);

#endif
