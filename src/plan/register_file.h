/* The vector registers that a CPU device's compiler has: how many, and how many float32 numbers wide. They decide how
 * large a tile may be before it spills. */
#ifndef CLATTN_SRC_REGISTER_FILE_H
#define CLATTN_SRC_REGISTER_FILE_H

#include "plan/ask.h"

enum register_file {
    REGISTERS_16_OF_4,  /* x86 SSE2; and what a device that says nothing is taken for */
    REGISTERS_32_OF_4,  /* AArch64 NEON */
    REGISTERS_16_OF_8,  /* x86 AVX2 with FMA */
    REGISTERS_32_OF_16, /* x86 AVX-512 */
    REGISTER_FILE_COUNT
};

/* Asks the ladder (plan/ladder.h), and so may run a probe the first time. */
enum register_file register_file_of(struct ask *ask);

/* "16 of 8", as rows of the tuning table say it. */
const char *register_file_name(enum register_file registers);

/* How many there are, and bytes of each. */
int register_count(enum register_file registers);
int register_bytes(enum register_file registers);

#endif
