/* Problems and calls out of bytes, what must hold of a call that is taken, and the reference on it. The bytes: edits
 * of the problem's fields, each the number of a field, 0 ends, and its value. Then edits of the tensors in the same
 * way, offset and strides; the rest is what is in them. */
#ifndef CLATTN_TESTS_FUZZ_TRIALS_H
#define CLATTN_TESTS_FUZZ_TRIALS_H

#include "fuzz.h"
#include "problem_kinds.h"

void trial_start(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial);

/* Gives the trial's call its tensors, and looks at it. NULL where it is refused. */
const struct operands *trial_call(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial);

/* The reference on memory of just the bytes that strides reach, where the call is small. */
void trial_compute(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial,
                   const struct operands *operands);

#endif
