/* The standard ALiBi slopes; body of clattn_alibi_slopes. */
#ifndef CLATTN_SRC_ALIBI_H
#define CLATTN_SRC_ALIBI_H

#include <stdint.h>

/* Fills slopes[0 .. heads - 1], heads >= 0. */
void alibi_slopes(int64_t heads, float *slopes);

#endif
