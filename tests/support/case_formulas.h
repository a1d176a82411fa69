/* The formulas of cases with a score or a mask of the user's own: each is written once, in OpenCL C, and compiled
 * twice, by the device and, as the callbacks of the reference, by the compiler of this file. What is right, the
 * goldens say. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_FORMULAS_H
#define CLATTN_TESTS_SUPPORT_CASE_FORMULAS_H

#include "clattn_code.h"

/* Sets source, functions and callbacks. The formula's tables are tensors of the names that it loads, its scalars have
 * the case's names; of a table of two axes the scalar NAME_1 is the extent of axis 1, of three also NAME_2. -1: there
 * is no formula of the name. */
int case_formula_find(const char *name, clattn_user_code *code);

#endif
