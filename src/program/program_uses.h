/* Which kernels a plan takes, as it is made: what a verdict on the plan is a verdict on. */
#ifndef CLATTN_SRC_PROGRAM_USES_H
#define CLATTN_SRC_PROGRAM_USES_H

#include "base/text.h"
#include "program/program_file.h"

struct program_uses {
    struct text kernels; /* a line each: the digest of its program, its name; the caller frees it */
    uint64_t programs;   /* that the context did not have before */
    double compile_ms;   /* which compiling and loading them took */
    int refused;         /* the driver was not asked to build one, which had ended a process before */
};

/* `uses` NULL: nothing is kept. */
void program_uses_add(struct program_uses *uses, const struct program_key *program, const char *name);
void program_uses_refuse(struct program_uses *uses);
void program_uses_pay(struct program_uses *uses, double compile_ms); /* for one more */

#endif
