/* The wrapped file operations. Those with a 64 behind their names are what the C library makes of the others where
 * _FILE_OFFSET_BITS is 64. */
#define _LARGEFILE64_SOURCE
#include "failing_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static struct failing_files_fault fault;
static long count, fail_at;
static int is_on;
static const char *struck;

void failing_files_start(const struct failing_files_fault *wanted, long at)
{
    fault = *wanted;
    count = 0;
    fail_at = at;
    struck = NULL;
    is_on = 1;
}

int failing_files_stop(void)
{
    is_on = 0;
    return struck != NULL;
}

const char *failing_files_struck(void)
{
    return struck ? struck : "none";
}

/* Whether it is this operation's turn. */
static int strikes(const char *name, int moves_bytes)
{
    if (!is_on || (fault.kind == FILES_SHORT && !moves_bytes)) {
        return 0;
    }
    ++count;
    if (count != fail_at && !(fault.kind == FILES_FAIL_ON && count > fail_at)) {
        return 0;
    }
    struck = struck ? struck : name;
    if (fault.kind == FILES_KILL_BEFORE) {
        _exit(FAILING_FILES_KILLED);
    }
    return 1;
}

static int fails_at_once(void)
{
    errno = fault.error;
    return fault.kind == FILES_FAIL || fault.kind == FILES_FAIL_ON;
}

/* An operation: its function with its parameters' types and names, what says that it failed. */
#define OPERATION(type, name, failed, parameters, arguments)                                                           \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        const int strike = strikes(#name, 0);                                                                          \
        if (strike && fails_at_once()) {                                                                               \
            return failed;                                                                                             \
        }                                                                                                              \
        type result = __real_##name arguments;                                                                         \
        if (strike) {                                                                                                  \
            _exit(FAILING_FILES_KILLED);                                                                               \
        }                                                                                                              \
        return result;                                                                                                 \
    }

OPERATION(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
OPERATION(int, rename, -1, (const char *from, const char *to), (from, to))
OPERATION(int, renameat, -1, (int from, const char *name, int to, const char *new_name), (from, name, to, new_name))
OPERATION(int, unlink, -1, (const char *path), (path))
OPERATION(int, unlinkat, -1, (int folder, const char *name, int flags), (folder, name, flags))
OPERATION(int, rmdir, -1, (const char *path), (path))
OPERATION(int, mkstemp, -1, (char *pattern), (pattern))
OPERATION(int, stat, -1, (const char *path, struct stat *about), (path, about))
OPERATION(int, lstat, -1, (const char *path, struct stat *about), (path, about))
OPERATION(int, fstat, -1, (int file, struct stat *about), (file, about))
OPERATION(int, fstatat, -1, (int folder, const char *name, struct stat *about, int flags), (folder, name, about, flags))
OPERATION(int, fchmod, -1, (int file, mode_t mode), (file, mode))
OPERATION(int, ftruncate, -1, (int file, off_t bytes), (file, bytes))
OPERATION(int, flock, -1, (int file, int how), (file, how))
OPERATION(int, utimensat, -1, (int folder, const char *name, const struct timespec *times, int flags),
          (folder, name, times, flags))
OPERATION(DIR *, opendir, NULL, (const char *path), (path))
OPERATION(DIR *, fdopendir, NULL, (int folder), (folder))
OPERATION(struct dirent *, readdir, NULL, (DIR * stream), (stream))
OPERATION(char *, realpath, NULL, (const char *path, char *to), (path, to))
OPERATION(char *, getcwd, NULL, (char *to, size_t size), (to, size))
OPERATION(ssize_t, readlink, -1, (const char *path, char *to, size_t size), (path, to, size))

OPERATION(int, mkstemp64, -1, (char *pattern), (pattern))
OPERATION(int, stat64, -1, (const char *path, struct stat64 *about), (path, about))
OPERATION(int, lstat64, -1, (const char *path, struct stat64 *about), (path, about))
OPERATION(int, fstat64, -1, (int file, struct stat64 *about), (file, about))
OPERATION(int, fstatat64, -1, (int folder, const char *name, struct stat64 *about, int flags),
          (folder, name, about, flags))
OPERATION(int, ftruncate64, -1, (int file, off64_t bytes), (file, bytes))
OPERATION(struct dirent64 *, readdir64, NULL, (DIR * stream), (stream))

/* What a program wrote that runs thousands of times need not reach the disk. */
int __wrap_fsync(int file);
int __wrap_fsync(int file)
{
    (void)file;
    const int strike = strikes("fsync", 0);
    if (strike && fails_at_once()) {
        return -1;
    }
    if (strike) {
        _exit(FAILING_FILES_KILLED);
    }
    return 0;
}

/* The descriptor is gone, whatever close says. */
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file)
{
    const int strike = strikes("close", 0), result = __real_close(file);
    if (strike && !fails_at_once()) {
        _exit(FAILING_FILES_KILLED);
    }
    return strike ? -1 : result;
}

/* Those that move bytes: how many of `bytes` it is to be; -1: none, it fails. */
static ssize_t bytes_to_move(const char *name, size_t bytes, int *strike)
{
    *strike = strikes(name, 1);
    if (*strike && fails_at_once()) {
        return -1;
    }
    return (ssize_t)(*strike && bytes > 1 ? bytes / 2 : bytes);
}

#define MOVES_BYTES(name, parameters, arguments)                                                                       \
    ssize_t __real_##name parameters;                                                                                  \
    ssize_t __wrap_##name parameters;                                                                                  \
    ssize_t __wrap_##name parameters                                                                                   \
    {                                                                                                                  \
        int strike;                                                                                                    \
        const ssize_t wanted = bytes_to_move(#name, bytes, &strike);                                                   \
        if (wanted < 0) {                                                                                              \
            return -1;                                                                                                 \
        }                                                                                                              \
        bytes = (size_t)wanted;                                                                                        \
        const ssize_t moved = __real_##name arguments;                                                                 \
        if (strike && fault.kind == FILES_KILL_BETWEEN) {                                                              \
            _exit(FAILING_FILES_KILLED);                                                                               \
        }                                                                                                              \
        return moved;                                                                                                  \
    }

MOVES_BYTES(read, (int file, void *to, size_t bytes), (file, to, bytes))
MOVES_BYTES(write, (int file, const void *from, size_t bytes), (file, from, bytes))
MOVES_BYTES(pread, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at))
MOVES_BYTES(pwrite, (int file, const void *from, size_t bytes, off_t at), (file, from, bytes, at))
MOVES_BYTES(pread64, (int file, void *to, size_t bytes, off64_t at), (file, to, bytes, at))
MOVES_BYTES(pwrite64, (int file, const void *from, size_t bytes, off64_t at), (file, from, bytes, at))

/* The mode is there where a file may be made. */
static mode_t mode_of(int flags, va_list more)
{
    return flags & O_CREAT ? (mode_t)va_arg(more, unsigned) : 0;
}

#define OPENS(name, parameters, arguments)                                                                             \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters                                                                                       \
    {                                                                                                                  \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        const mode_t mode = mode_of(flags, more);                                                                      \
        va_end(more);                                                                                                  \
        const int strike = strikes(#name, 0);                                                                          \
        if (strike && fails_at_once()) {                                                                               \
            return -1;                                                                                                 \
        }                                                                                                              \
        const int file = __real_##name arguments;                                                                      \
        if (strike) {                                                                                                  \
            _exit(FAILING_FILES_KILLED);                                                                               \
        }                                                                                                              \
        return file;                                                                                                   \
    }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
