/* Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011); twin of
 * cl/pair/philox.clh. */
#ifndef CLATTN_SRC_PHILOX_H
#define CLATTN_SRC_PHILOX_H

#include <stdint.h>

void philox_4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4]);

#endif
