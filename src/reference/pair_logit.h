/* The logit of one row and one key, for what looks at pairs one by one: gradients, sums of weights. (reference.c finds
 * those of a whole row in stages, since a caller may ask for each.) */
#ifndef CLATTN_SRC_PAIR_LOGIT_H
#define CLATTN_SRC_PAIR_LOGIT_H

#include "reference/user_pairs.h"

struct pair_logit {
    unsigned char allowed;     /* 0: the row does not see the key, and nothing below is set, or means anything */
    long double dot, dot_size; /* query . key; of magnitudes */
    long double logit;         /* with softcap, the user's score, bias and slopes */
    long double magnitude;     /* A_ij of docs/numbers.md */
    long double slack, loose;  /* d logit / d scaled score, and its errors; of a user's score where it was asked for */
};

/* `query`, `key`: a row each. asks_slope: also of the user's score, which must have its derivative then. */
void find_pair_logit(const struct user_pair *at, const double *query, const double *key, int asks_slope,
                     struct pair_logit *found);

#endif
