/* The score and the mask of the user's own that a case may have (meta.user): its formula, tables and scalars. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_TEXT_H
#define CLATTN_TESTS_SUPPORT_CASE_TEXT_H

#include "case_file.h"

/* Nothing where the case has none. On failure case_free frees what there is. */
int case_text_read(const char *folder, struct attention_case *c, struct failure *failure);

#endif
