/* Programs that have a text of the user's own in them (cl/user/code.clh). */
#ifndef CLATTN_SRC_CODE_PROGRAMS_H
#define CLATTN_SRC_CODE_PROGRAMS_H

#include "plan/ask.h"

/* ask_kernel, of a problem that has a code. */
clattn_status code_kernel(struct ask *ask, const char *file, const char *options, const char *name,
                          struct kernel **kernel);

/* Whether the device compiles the problem's text, if it has one: CLATTN_BUILD_FAILED with what its compiler says, from
 * the first line of the text on. */
clattn_status code_check(struct ask *ask);

/* For kernels whose numbers lie along lanes: appends " -D CODE_WIDTH=16" where the text can be compiled so, else
 * nothing; and a line to ask->explain. Problems without a code: nothing. */
void append_code_width(struct ask *ask, struct text *options);

/* What a plan says of its problem's text. */
void code_explain(const struct any_problem *problem, struct text *explain);

#endif
