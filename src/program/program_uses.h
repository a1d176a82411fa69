/* Which kernels a plan takes, as it is made: a list of the thread's, from begin to end. What a verdict on the plan is a
 * verdict on. */
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

/* Kernels are added to `uses` from here on, by this thread; NULL: to none. Returns what they were added to before, for
 * the caller to put back. */
struct program_uses *program_uses_begin(struct program_uses *uses);

void program_uses_add(const struct program_key *program, const char *name);
void program_uses_refuse(void);
void program_uses_pay(double compile_ms, int programs); /* for so many more, 0: for one that was there */

#endif
