/* Parts of exact_gradients. */
#ifndef CLATTN_TESTS_GRADIENTS_EXACT_OTHERS_H
#define CLATTN_TESTS_GRADIENTS_EXACT_OTHERS_H

#include "clattn.h"

/* Reports what the gradients beside the three have to the last bit. `tight`: a context with room for nearly nothing. */
void exact_others(const char *strategy, clattn_context *tight);

/* Reports whether gradients are right where rows see a part of a tile: exact_places.c. */
void exact_places(const char *strategy);

/* Reports whether the gradients of problems without a batch entry, head, row or key are 0: exact_empty.c. strategy:
 * "reference", too. */
void exact_empty(const char *strategy);

#endif
