#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"
#include "standard_files.h"

#define PIECE_BYTES ((size_t)16 << 20) /* of one read or write: progress is told between them */
#define LINKS_MAX 40                   /* behind one another */

int file_has_suffix(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

static int open_regular(const char *path, int *descriptor, uint64_t *size_bytes, struct failure *failure)
{
    /* O_NONBLOCK: opening a pipe that nobody writes to must not wait. */
    int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat about;
    if (opened < 0) {
        return failure_misuse(failure, "file %s: cannot open: %s", path, strerror(errno));
    }
    if (fstat(opened, &about) != 0) {
        failure_misuse(failure, "file %s: cannot read: %s", path, strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        failure_misuse(failure, "file %s: must be a regular file, is a %s", path,
                       S_ISDIR(about.st_mode) ? "directory"
                                              : "pipe or device; save it to a file, or give - for standard input");
    } else {
        *descriptor = opened;
        *size_bytes = (uint64_t)about.st_size;
        return 0;
    }
    close(opened);
    return -1;
}

int file_open(const char *path, int *descriptor, uint64_t *size_bytes, struct failure *failure)
{
    if ((is_standard_file(path) ? standard_input_open(descriptor, size_bytes, failure)
                                : open_regular(path, descriptor, size_bytes, failure)) != 0) {
        return -1;
    }
    progress_expect(*size_bytes);
    return 0;
}

int file_read(const char *path, int descriptor, uint64_t position, void *data, size_t bytes, struct failure *failure)
{
    char *to = data;
    while (bytes > 0) {
        size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        ssize_t got = pread(descriptor, to, piece, (off_t)position);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return failure_misuse(failure, "file %s: cannot read: %s", path, strerror(errno));
        }
        if (got == 0) {
            return failure_misuse(failure, "file %s: became shorter while it was read", path);
        }
        progress_add((uint64_t)got);
        to += got;
        position += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* Whether a link stands in a folder that everybody may write to, and neither the folder's owner nor this user has
 * put it there: whoever did so chooses what is written to. Linux itself refuses to follow such links where
 * fs.protected_symlinks is set, but realpath does not follow: it reads. */
static int is_planted(const char *link, const struct stat *about)
{
    struct stat folder;
    char *name = strdup(link), *slash = name ? strrchr(name, '/') : NULL;
    int planted;
    if (slash) {
        slash[slash == name] = 0;
    }
    planted = !name || stat(slash ? name : ".", &folder) != 0 ||
              ((folder.st_mode & S_ISVTX) && (folder.st_mode & S_IWOTH) && about->st_uid != geteuid() &&
               about->st_uid != folder.st_uid);
    free(name);
    return planted;
}

/* What a link at `path` says, from where the path is seen; NULL without memory. The caller frees it. */
static char *read_link(const char *path)
{
    char target[4096], *whole = NULL;
    const char *slash = strrchr(path, '/');
    ssize_t length = readlink(path, target, sizeof target - 1);
    size_t folder;
    if (length < 0) {
        return NULL;
    }
    target[length] = 0;
    folder = slash && target[0] != '/' ? (size_t)(slash - path) + 1 : 0;
    whole = malloc(folder + (size_t)length + 1);
    if (whole) {
        memcpy(whole, path, folder);
        memcpy(whole + folder, target, (size_t)length + 1);
    }
    return whole;
}

/* Whether a name on the way, or a link that it leads to, is planted. */
static int leads_through_planted(const char *path, int links_left)
{
    char *part = strdup(path);
    int planted = !part || links_left == 0;
    for (size_t end = 1; !planted && part[end - 1]; end++) {
        struct stat about;
        char next = part[end];
        if (next && (next != '/' || part[end - 1] == '/')) {
            continue;
        }
        part[end] = 0;
        if (lstat(part, &about) == 0 && S_ISLNK(about.st_mode)) {
            char *target = is_planted(part, &about) ? NULL : read_link(part);
            planted = !target || leads_through_planted(target, links_left - 1);
            free(target);
        }
        part[end] = next;
        if (!next) {
            break;
        }
    }
    free(part);
    return planted;
}

/* Where the bytes go in the end: behind a symbolic link, its target. The caller frees it. */
static char *resolve(const char *path, struct failure *failure)
{
    char *target;
    if (*path && leads_through_planted(path, LINKS_MAX)) {
        failure_misuse(failure,
                       "output %s: is behind a link that another user put into a folder which everybody may write "
                       "to; name the file itself",
                       path);
        return NULL;
    }
    target = realpath(path, NULL);
    if (!target) {
        target = strdup(path);
    }
    if (!target) {
        failure_failed(failure, "out of memory");
    }
    return target;
}

/* Creates TARGET.tmp-PROCESS-NUMBER; *temporary is the caller's. Its mode is that of the file that it replaces, else
 * 0666 less the umask, as for any file that a program writes. */
static int create_temporary(const char *path, const char *target, char **temporary, struct failure *failure)
{
    struct stat about;
    const int replaces = stat(target, &about) == 0;
    size_t capacity = strlen(target) + 64;
    char *name;
    if (replaces && !S_ISREG(about.st_mode)) {
        return failure_misuse(failure, "output %s: must be a regular file or a new name, is a %s", path,
                              S_ISDIR(about.st_mode) ? "directory" : "pipe or device");
    }
    name = malloc(capacity);
    if (!name) {
        return failure_failed(failure, "out of memory");
    }
    for (int number = 0; number < 100; number++) {
        int opened;
        snprintf(name, capacity, "%s.tmp-%ld-%d", target, (long)getpid(), number);
        opened = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, replaces ? 0600 : 0666);
        if (opened >= 0 && (!replaces || fchmod(opened, about.st_mode & 0777) == 0)) {
            *temporary = name;
            return opened;
        }
        if (opened >= 0) {
            close(opened);
            unlink(name);
        }
        if (opened >= 0 || errno != EEXIST) {
            break;
        }
    }
    failure_misuse(failure, "output %s: cannot create: %s", path, strerror(errno));
    free(name);
    return -1;
}

static int write_all(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        ssize_t put = write(descriptor, data, piece);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return -1;
        }
        progress_add((uint64_t)put);
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

static int write_parts(int descriptor, size_t n_parts, const struct file_part *parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        progress_expect(parts[i].bytes);
    }
    for (size_t i = 0; i < n_parts; i++) {
        if (write_all(descriptor, parts[i].data, parts[i].bytes) != 0) {
            return -1;
        }
    }
    return 0;
}

static int write_regular(const char *path, size_t n_parts, const struct file_part *parts, struct failure *failure)
{
    char *target = resolve(path, failure), *temporary = NULL;
    int descriptor, error = 0;
    if (!target) {
        return -1;
    }
    descriptor = create_temporary(path, target, &temporary, failure);
    if (descriptor < 0) {
        free(target);
        return -1;
    }
    if (write_parts(descriptor, n_parts, parts) != 0 || fsync(descriptor) != 0) {
        error = errno;
    }
    if (close(descriptor) != 0 && !error) {
        error = errno;
    }
    if (!error && rename(temporary, target) != 0) {
        error = errno;
    }
    if (error) {
        unlink(temporary);
        failure_failed(failure, "output %s: cannot write: %s", path, strerror(error));
    }
    free(temporary);
    free(target);
    return error ? -1 : 0;
}

int file_write(const char *path, size_t n_parts, const struct file_part *parts, struct failure *failure)
{
    if (!is_standard_file(path)) {
        return write_regular(path, n_parts, parts, failure);
    }
    return write_parts(standard_output(), n_parts, parts) == 0
               ? 0
               : failure_failed(failure, "output -: cannot write: %s", strerror(errno));
}

int file_check_output(const char *path, struct failure *failure)
{
    if (is_standard_file(path)) {
        return standard_output_keep(failure);
    }
    char *target = resolve(path, failure), *temporary = NULL;
    int descriptor;
    if (!target) {
        return -1;
    }
    descriptor = create_temporary(path, target, &temporary, failure);
    if (descriptor >= 0) {
        close(descriptor);
        unlink(temporary);
        free(temporary);
    }
    free(target);
    return descriptor >= 0 ? 0 : -1;
}
