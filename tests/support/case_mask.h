/* A case's mask, of bytes, bits or numbers: of all keys, of the first ones or of the last. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_MASK_H
#define CLATTN_TESTS_SUPPORT_CASE_MASK_H

#include "case_file.h"

/* Nothing where the case has none. */
int case_place_mask(struct attention_case *c, struct failure *failure);

#endif
