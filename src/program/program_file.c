/* Files of compiled programs: the format, reading with suspicion, writing wholly or not at all. */
#include "program/program_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "program/program_folder.h"

#define FORMAT_VERSION 1
#define TEMPORARY_ATTEMPTS 16

enum { AT_MAGIC = 0, AT_VERSION = 8, AT_KEY = 16, AT_LENGTH = 48, AT_DIGEST = 56 };

void program_file_name(const struct program_key *key, char name[PROGRAM_FILE_NAME_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_BYTES; ++i) {
        name[2 * i] = digits[key->bytes[i] >> 4];
        name[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    snprintf(name + 2 * SHA256_BYTES, PROGRAM_FILE_NAME_BYTES - 2 * SHA256_BYTES, PROGRAM_FILE_SUFFIX);
}

static void put_number(unsigned char *at, uint64_t number)
{
    for (int i = 0; i < 8; ++i) {
        at[i] = (unsigned char)(number >> (8 * i));
    }
}

void program_file_header(const struct program_key *key, const void *binary, size_t bytes,
                         unsigned char header[PROGRAM_FILE_HEADER_BYTES])
{
    struct sha256 sha256;
    memcpy(header + AT_MAGIC, "clattnpb", 8);
    put_number(header + AT_VERSION, FORMAT_VERSION);
    memcpy(header + AT_KEY, key->bytes, SHA256_BYTES);
    put_number(header + AT_LENGTH, bytes);
    sha256_begin(&sha256);
    sha256_add(&sha256, binary, bytes);
    sha256_end(&sha256, header + AT_DIGEST);
}

/* There is one right header for a key and the bytes that follow: no field is trusted to find another. */
int program_file_valid(const struct program_key *key, const unsigned char *file, size_t file_bytes)
{
    unsigned char expected[PROGRAM_FILE_HEADER_BYTES];
    if (file_bytes <= PROGRAM_FILE_HEADER_BYTES) {
        return 0;
    }
    program_file_header(key, file + PROGRAM_FILE_HEADER_BYTES, file_bytes - PROGRAM_FILE_HEADER_BYTES, expected);
    return memcmp(file, expected, sizeof(expected)) == 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_all(int file, unsigned char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t count = read(file, bytes + done, size - done);
        if (count <= 0) {
            if (count < 0 && errno == EINTR) {
                continue;
            }
            return 0;
        }
        done += (size_t)count;
    }
    return 1;
}

static unsigned char *read_open_file(int file, enum program_folder_trust trust, size_t *file_bytes)
{
    struct stat state;
    if (fstat(file, &state) != 0 || !S_ISREG(state.st_mode) || !program_folder_trusts(trust, &state) ||
        state.st_size <= PROGRAM_FILE_HEADER_BYTES || state.st_size > (off_t)PROGRAM_FILE_BYTES_MAX) {
        return NULL;
    }
    unsigned char *bytes = malloc((size_t)state.st_size);
    if (bytes && !read_all(file, bytes, (size_t)state.st_size)) {
        free(bytes);
        return NULL;
    }
    *file_bytes = (size_t)state.st_size;
    return bytes;
}

unsigned char *program_file_read(const char *folder, enum program_folder_trust trust, const struct program_key *key,
                                 size_t *file_bytes)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    unsigned char *bytes = NULL;
    int directory = program_folder_open(folder, trust);
    if (directory < 0) {
        return NULL;
    }
    program_file_name(key, name);
    /* O_NONBLOCK: a pipe in its place must not make us wait for a writer. */
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file >= 0) {
        bytes = read_open_file(file, trust, file_bytes);
        if (bytes && !program_file_valid(key, bytes, *file_bytes)) {
            free(bytes);
            bytes = NULL;
        }
        if (bytes && trust == PROGRAM_FOLDER_OWN) {
            futimens(file, NULL); /* used now: program_folder_trim goes by that */
        }
        close(file);
    }
    close(directory);
    return bytes;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int write_all(int file, const unsigned char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t count = write(file, bytes + done, size - done);
        if (count < 0 && errno != EINTR) {
            return 0;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return 1;
}

/* A new file under a name that nobody has. O_EXCL follows no link and takes no file of others. */
static int make_temporary(int directory, char name[PROGRAM_FILE_NAME_BYTES])
{
    struct timespec now = { 0, 0 };
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (unsigned attempt = 0; attempt < TEMPORARY_ATTEMPTS; ++attempt) {
        snprintf(name, PROGRAM_FILE_NAME_BYTES, PROGRAM_TEMPORARY_PREFIX "%ld-%lx-%u", (long)getpid(),
                 (unsigned long)now.tv_nsec, attempt);
        int file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST) {
            return file;
        }
    }
    return -1;
}

/* A write beyond this limit (ulimit -f) would kill the process. */
static int limit_allows(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

static int write_in(int directory, const char *name, const unsigned char *header, const void *binary, size_t bytes)
{
    char temporary[PROGRAM_FILE_NAME_BYTES];
    int file = make_temporary(directory, temporary);
    if (file < 0) {
        return 0;
    }
    int written = write_all(file, header, PROGRAM_FILE_HEADER_BYTES) && write_all(file, binary, bytes) &&
                  fsync(file) == 0;
    written = close(file) == 0 && written;
    written = written && renameat(directory, temporary, directory, name) == 0;
    if (!written) {
        unlinkat(directory, temporary, 0);
    }
    return written;
}

int program_file_write(const char *folder, const struct program_key *key, const void *binary, size_t bytes,
                       size_t limit_bytes)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    unsigned char header[PROGRAM_FILE_HEADER_BYTES];
    if (bytes == 0 || bytes > PROGRAM_FILE_BYTES_MAX - PROGRAM_FILE_HEADER_BYTES ||
        !limit_allows(bytes + PROGRAM_FILE_HEADER_BYTES)) {
        return 0;
    }
    program_folder_make(folder);
    int directory = program_folder_open(folder, PROGRAM_FOLDER_OWN);
    if (directory < 0) {
        return 0;
    }
    program_file_name(key, name);
    program_file_header(key, binary, bytes, header);
    int written = write_in(directory, name, header, binary, bytes);
    if (written && limit_bytes > 0) {
        program_folder_trim(directory, limit_bytes);
    }
    close(directory);
    return written;
}
