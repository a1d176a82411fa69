/* A file of a folder that is read with suspicion and written wholly or not at all. Knows nothing of what is in it. */
#ifndef CLATTN_SRC_FOLDER_FILE_H
#define CLATTN_SRC_FOLDER_FILE_H

#include <stddef.h>

#include "program/program_folder.h"

/* All of the file `name` in an open folder when it is a regular file and no link, owned by someone trusted, writable
 * by nobody else, of bytes_least to bytes_most bytes; else NULL. The caller frees it. */
unsigned char *folder_file_read(int directory, const char *name, enum program_folder_trust trust, size_t bytes_least,
                                size_t bytes_most, size_t *bytes);

struct folder_file_part {
    const void *data;
    size_t bytes;
};

/* Writes the parts, one behind the other, for the user alone. 0 when that did not work, for whatever reason; then what
 * was there before is there still. */
int folder_file_write(int directory, const char *name, const struct folder_file_part *parts, size_t count);

/* Locks a file of the folder, which is made where it is missing, against other processes. 1: *lock is what
 * folder_file_unlock takes; 0: another process has it; -1: it cannot be locked. */
int folder_file_lock(int directory, const char *name, int *lock);
void folder_file_unlock(int lock);

#endif
