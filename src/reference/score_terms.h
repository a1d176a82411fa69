/* What is added to a score, the bias and what slopes take off: the host twin of add_terms in cl/pair/score.clh. */
#ifndef CLATTN_SRC_SCORE_TERMS_H
#define CLATTN_SRC_SCORE_TERMS_H

#include "reference/visibility.h"

/* bias[b, h, i, j]: 0 of the keys before those that a bias is of, -inf of those behind. */
double bias_of_pair(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i, int64_t j);

/* A changed score becomes the logit of row i, head h and a key j that the row sees; *magnitude, A_ij of
 * docs/numbers.md, grows by what each term is without its sign. */
void add_terms(const struct problem *problem, const struct call *call, const struct sequence *sequence, int64_t b,
               int64_t h, int64_t i, int64_t j, long double *score, long double *magnitude);

#endif
