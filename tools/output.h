/* Files that are written, in two steps: wholly under a temporary name in the same folder, then renamed, so that nobody
 * sees half a file and several can take their places together. A process that is killed between leaves the temporary
 * file; who writes the same file an hour later, or any time after, removes it. */
#ifndef CLATTN_TOOLS_OUTPUT_H
#define CLATTN_TOOLS_OUTPUT_H

#include "files.h"

struct output {
    const char *path;         /* as the user names it; the caller's */
    char *target, *temporary; /* where it goes in the end, and is meanwhile. Owned */
};

/* The parts one after the other, forced to the disk. On -1 nothing is left of it. */
int output_write(struct output *output, const char *path, size_t n_parts, const struct file_part *parts,
                 struct failure *failure);

/* What was written is the file from now on; on -1 nothing is left of it, and the file is what it was before. */
int output_take_place(struct output *output, struct failure *failure);

/* In place of taking its place. Also after either failed, and of zeros: then nothing happens. */
void output_abandon(struct output *output);

/* Whether a file could be created there. */
int output_check(const char *path, struct failure *failure);

/* To a descriptor; errno on -1. */
int output_write_parts(int descriptor, size_t n_parts, const struct file_part *parts);

#endif
