/* A user's code as the reference has it: its callbacks, about pairs. */
#ifndef CLATTN_SRC_USER_PAIRS_H
#define CLATTN_SRC_USER_PAIRS_H

#include "reference/visibility.h"

/* A pair of a call, by its place in the call. */
struct user_pair {
    const struct problem *problem;
    const struct call *call;
    const struct sequence *sequence;
    int64_t b, h, i, j;
};

/* Whether the problem has no code, or callbacks for all functions of it that are asked: of gradients the slope too. */
clattn_status user_pairs_check(const struct problem *problem, int of_gradients);

/* Whether a key is visible to a row, of a problem whose code has a mask. */
int user_pair_is_visible(const struct user_pair *pair);

/* What the score of a problem whose code has one makes of a score and its magnitude (A_ij); returns whether the key
 * stays visible. `slope` (may be NULL) gets the derivative. */
unsigned char user_pair_change(const struct user_pair *pair, long double *score, long double *magnitude,
                               long double *slope);

#endif
