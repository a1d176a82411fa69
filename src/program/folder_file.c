/* Files of folders, in both directions. */
#include "program/folder_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY_ATTEMPTS 16
#define TEMPORARY_NAME_BYTES 72

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

static unsigned char *read_open_file(int file, enum program_folder_trust trust, size_t bytes_least, size_t bytes_most,
                                     size_t *file_bytes)
{
    struct stat state;
    if (fstat(file, &state) != 0 || !S_ISREG(state.st_mode) || !program_folder_trusts(trust, &state) ||
        state.st_size < (off_t)bytes_least || state.st_size > (off_t)bytes_most) {
        return NULL;
    }
    unsigned char *bytes = malloc((size_t)state.st_size + 1);
    if (bytes && !read_all(file, bytes, (size_t)state.st_size)) {
        free(bytes);
        return NULL;
    }
    *file_bytes = (size_t)state.st_size;
    return bytes;
}

unsigned char *folder_file_read(int directory, const char *name, enum program_folder_trust trust, size_t bytes_least,
                                size_t bytes_most, size_t *bytes)
{
    /* O_NONBLOCK: a pipe in its place must not make us wait for a writer. */
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) {
        return NULL;
    }
    unsigned char *read = read_open_file(file, trust, bytes_least, bytes_most, bytes);
    close(file);
    return read;
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
static int make_temporary(int directory, char name[TEMPORARY_NAME_BYTES])
{
    struct timespec now = { 0, 0 };
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (unsigned attempt = 0; attempt < TEMPORARY_ATTEMPTS; ++attempt) {
        snprintf(name, TEMPORARY_NAME_BYTES, PROGRAM_TEMPORARY_PREFIX "%ld-%lx-%u", (long)getpid(),
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

int folder_file_write(int directory, const char *name, const struct folder_file_part *parts, size_t count)
{
    char temporary[TEMPORARY_NAME_BYTES];
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
        bytes += parts[i].bytes;
    }
    int file = limit_allows(bytes) ? make_temporary(directory, temporary) : -1;
    if (file < 0) {
        return 0;
    }
    int written = 1;
    for (size_t i = 0; i < count; ++i) {
        written = written && write_all(file, parts[i].data, parts[i].bytes);
    }
    written = written && fsync(file) == 0;
    written = close(file) == 0 && written;
    written = written && renameat(directory, temporary, directory, name) == 0;
    if (!written) {
        unlinkat(directory, temporary, 0);
    }
    return written;
}

/* ---- locking -------------------------------------------------------------------------------- */

int folder_file_lock(int directory, const char *name, int *lock)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const int file = openat(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (file < 0) {
        return -1;
    }
    if (fcntl(file, F_SETLK, &whole) == 0) {
        *lock = file;
        return 1;
    }
    const int is_of_another = errno == EACCES || errno == EAGAIN;
    close(file);
    return is_of_another ? 0 : -1;
}

void folder_file_unlock(int lock)
{
    close(lock); /* which gives it back */
}
