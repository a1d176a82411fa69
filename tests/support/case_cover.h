/* Which cases stand for all of them, where a strategy compiles for each problem and all would compile for minutes: as
 * few as have every feature and every class of shapes in each type, and in one of the types every pair of features that
 * any case has; or fewer still, every feature and every class in one of the types. Few rows, which strategy split
 * takes, count as a feature. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_COVER_H
#define CLATTN_TESTS_SUPPORT_CASE_COVER_H

#include "test_call.h"

/* What a validated call has, a bit each. */
uint64_t case_traits(const struct test_call *test);

enum case_choice { CASES_ALL, CASES_COVER, CASES_FEW };

/* --choose all, cover or few; -1: none of them. */
int case_choice_named(const char *name, enum case_choice *choice);

/* Bit t of chosen[i]: case i in type t stands for others; at most OPTIONS_TYPES_MAX types. choice: not CASES_ALL. */
void case_cover(const uint64_t *traits, int n, int n_types, enum case_choice choice, unsigned char *chosen);

#endif
