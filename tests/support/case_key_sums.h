/* Sums of weights and largest logits of a case of attention that lists them (tests/cases/README.md), from the lse that
 * its forward call has left. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_KEY_SUMS_H
#define CLATTN_TESTS_SUPPORT_CASE_KEY_SUMS_H

#include "case_file.h"

int key_sums_case_is(const struct attention_case *c);

/* Writes those outputs, of the strategy of that name (c->problem.strategy), unless there is none or it declines;
 * context NULL: of the reference. */
int key_sums_case_solve(clattn_context *context, const char *to, const struct attention_case *c,
                        struct failure *failure);

#endif
