/* ALiBi (Press et al., 2021): the standard slopes, which is the body of clattn_alibi_slopes. What a slope takes off a
 * score: reference/score_terms.h. */
#ifndef CLATTN_SRC_ALIBI_H
#define CLATTN_SRC_ALIBI_H

#include <stdint.h>

/* Fills slopes[0 .. heads - 1], heads >= 0. */
void alibi_slopes(int64_t heads, float *slopes);

#endif
