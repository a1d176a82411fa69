/* Keys and values of a case that are codes: their types and scales, and the codes of float32 values. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_CODES_H
#define CLATTN_TESTS_SUPPORT_CASE_CODES_H

#include "case_file.h"

/* params.key_type and value_type, in place of which the case's dtype stands, as the problem has it. And the ring. */
void case_read_types(struct attention_case *c);

/* Columns of a row whose file has so many elements: of block types, bytes. */
int64_t case_columns(clattn_type type, int64_t elements);

void case_place_scales(struct attention_case *c);

/* Makes the outputs key_quantised and value_quantised where the case lists them. */
int case_quantise(struct attention_case *c, struct failure *failure);

#endif
