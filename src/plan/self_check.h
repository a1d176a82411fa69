/* Known answers of a plan's own programs, before any result of theirs reaches a caller: where the device is none that
 * the tests run on (or CLATTN_SELF_CHECK says so), the plan computes the small calls of self_check/self_check_call.h.
 * What came out of them is kept (program/verdicts.h), for the plan's kernels and the features that it asks for. */
#ifndef CLATTN_SRC_SELF_CHECK_H
#define CLATTN_SRC_SELF_CHECK_H

#include "plan/strategy.h"
#include "program/program_uses.h"

/* Judges a plan that was just made of `uses`. CLATTN_OK: `bad` is empty where it may be used, else it says why it may
 * not; `explain` gets a line. A failure is one of memory, and the plan must not be used. */
clattn_status self_check(const struct clattn_plan *plan, const struct program_uses *uses, struct text *explain,
                         struct text *bad);

#endif
