/* What a token attends to, in colours. */
#ifndef GENERATE_SHOW_H
#define GENERATE_SHOW_H

#include "tokeniser.h"

/* Prints a token's text without what a terminal would obey. */
void print_token(const struct tokeniser *tokeniser, int32_t token);

/* `weights`: of each of the tokens. */
void show_weights(const struct tokeniser *tokeniser, const int32_t *tokens, int64_t count, const double *weights);

#endif
