/* Reading and writing whole files. Reads regular files only, so that a pipe or a device cannot hang
 * the command; writes under a temporary name first (output.h), so that no half-written file is ever seen. "-" is
 * standard input, or standard output (standard_files.h). Tells progress.h of each byte. */
#ifndef CLATTN_TOOLS_FILES_H
#define CLATTN_TOOLS_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"

/* Opens a regular file for reading. The caller closes *descriptor. */
int file_open(const char *path, int *descriptor, uint64_t *size_bytes, struct failure *failure);

/* Reads exactly `bytes` bytes from a position on. */
int file_read(const char *path, int descriptor, uint64_t position, void *data, size_t bytes, struct failure *failure);

struct file_part {
    const void *data;
    size_t bytes;
};

/* Writes the parts one after the other: temporary name in the same folder, fsync, rename. "-" was file_check_output's
 * before. */
int file_write(const char *path, size_t n_parts, const struct file_part *parts, struct failure *failure);

/* Whether file_write could create the file: asked before long computations. "-": what is printed goes to standard error
 * from now on. */
int file_check_output(const char *path, struct failure *failure);

/* Whether a path ends so: ".npy". */
int file_has_suffix(const char *path, const char *suffix);

#endif
