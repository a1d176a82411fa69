/* Values that are the first columns of keys, as in latent attention: one tensor, read once. What is said of keys holds
 * for values; kernels are given the same buffer twice. */
#ifndef CLATTN_SRC_VALUE_IN_KEY_H
#define CLATTN_SRC_VALUE_IN_KEY_H

#include "operation/operands.h"

/* Gives values the type and the scales of keys, where the problem says value_in_key; refuses others. */
clattn_status value_in_key_resolve(clattn_problem *problem);

/* Gives values the places of keys; refuses others. */
clattn_status value_in_key_place(const clattn_problem *problem, struct operands *operands);

#endif
