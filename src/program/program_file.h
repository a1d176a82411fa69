/* A compiled program in a file: the format, and how such files are read and written so that a damaged
 * one, or one that somebody else put there, never reaches the driver. Knows of no OpenCL. `clattn compile` and the
 * program cache write the same files.
 *
 *     byte  0   "clattnpb"
 *           8   version of this format, 8 bytes; numbers are little-endian
 *          16   key: digest of all that the binary depends on (program_cache.c); also the file's name
 *          48   length of the binary in bytes, 8 bytes
 *          56   SHA-256 of the binary
 *          88   the binary, up to the end of the file */
#ifndef CLATTN_SRC_PROGRAM_FILE_H
#define CLATTN_SRC_PROGRAM_FILE_H

#include <stddef.h>

#include "base/sha256.h"

#define PROGRAM_FILE_HEADER_BYTES 88
#define PROGRAM_FILE_NAME_BYTES 72 /* 64 hexadecimal digits, ".clattn", 0 */
#define PROGRAM_FILE_BYTES_MAX ((size_t)256 << 20)

struct program_key {
    unsigned char bytes[SHA256_BYTES];
};

void program_file_name(const struct program_key *key, char name[PROGRAM_FILE_NAME_BYTES]);

/* The header for a binary. */
void program_file_header(const struct program_key *key, const void *binary, size_t bytes,
                         unsigned char header[PROGRAM_FILE_HEADER_BYTES]);

/* Whether `file` is, to the last bit, a file that holds a binary for this key. */
int program_file_valid(const struct program_key *key, const unsigned char *file, size_t file_bytes);

/* Who else than the user may have written the files of a folder. */
enum program_folder_trust {
    PROGRAM_FOLDER_OWN,      /* nobody: the cache */
    PROGRAM_FOLDER_INSTALLED /* the administrator: binaries made beforehand */
};

/* The whole file for this key when it is valid, a regular file and no link, owned by someone trusted,
 * writable by nobody else, in a folder of which that is true too; otherwise NULL. The caller frees it; the
 * binary is behind the header. */
unsigned char *program_file_read(const char *folder, enum program_folder_trust trust, const struct program_key *key,
                                 size_t *file_bytes);

/* Writes it, wholly or not at all, and makes the folder with its parents where they are missing. 0 when
 * that did not work, for whatever reason. Removes the files that were not used for longest while all
 * together are larger than `limit_bytes`; 0: no limit. */
int program_file_write(const char *folder, const struct program_key *key, const void *binary, size_t bytes,
                       size_t limit_bytes);

#endif
