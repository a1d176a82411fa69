/* Which cases stand for all of them, where a strategy compiles for each problem and all would compile for minutes: as
 * few as have every pair of features that any case has, and every class of shapes. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_COVER_H
#define CLATTN_TESTS_SUPPORT_CASE_COVER_H

#include "test_call.h"

/* What a validated call brings, a bit each: features, which count in pairs, and classes of shapes, which count
 * alone. */
uint32_t case_traits(const struct test_call *test);

/* Sets chosen[i] for the cases that stand for all n; 0 for the others. */
void case_cover(const uint32_t *traits, int n, unsigned char *chosen);

#endif
