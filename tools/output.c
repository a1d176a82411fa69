#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"

#define PIECE_BYTES ((size_t)16 << 20) /* of one write: progress is told between them */
#define LINKS_MAX 40                   /* behind one another */
#define TEMPORARY_INFIX ".clattn-tmp-"
#define TEMPORARY_BYTES 64 /* of what is appended to a name */
#define ABANDONED_SECONDS 3600

/* ---- where the bytes go ------------------------------------------------------------------------ */

/* Whether a link stands in a folder that everybody may write to, and neither the folder's owner nor this user has
 * put it there: whoever did so chooses what is written to. -1: that cannot be told, errno says why. Linux itself
 * refuses to follow such links where fs.protected_symlinks is set, but realpath does not follow: it reads. */
static int is_planted(const char *link, const struct stat *about)
{
    struct stat folder;
    char *name = strdup(link), *slash = name ? strrchr(name, '/') : NULL;
    int planted;
    if (slash) {
        slash[slash == name] = 0;
    }
    planted = !name || stat(slash ? name : ".", &folder) != 0
                  ? -1
                  : (folder.st_mode & S_ISVTX) && (folder.st_mode & S_IWOTH) && about->st_uid != geteuid() &&
                        about->st_uid != folder.st_uid;
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

/* Whether a name on the way, or a link that it leads to, is planted; -1 as above. */
static int leads_through_planted(const char *path, int links_left)
{
    char *part = strdup(path);
    int planted = part ? links_left == 0 : -1;
    for (size_t end = 1; planted == 0 && part[end - 1]; end++) {
        struct stat about;
        char next = part[end];
        if (next && (next != '/' || part[end - 1] == '/')) {
            continue;
        }
        part[end] = 0;
        if (lstat(part, &about) != 0) {
            planted = errno == ENOENT ? 0 : -1;
        } else if (S_ISLNK(about.st_mode) && (planted = is_planted(part, &about)) == 0) {
            char *target = read_link(part);
            planted = target ? leads_through_planted(target, links_left - 1) : -1;
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
    const int planted = *path ? leads_through_planted(path, LINKS_MAX) : 0;
    char *target = planted == 0 ? realpath(path, NULL) : NULL;
    if (planted > 0) {
        failure_misuse(failure,
                       "output %s: is behind a link that another user put into a folder which everybody may write "
                       "to; name the file itself",
                       path);
        return NULL;
    }
    if (!target && planted == 0 && errno == ENOENT) { /* a new one */
        target = strdup(path);
    }
    if (!target) {
        failure_misuse(failure, "output %s: cannot create: %s", path, strerror(errno));
    }
    return target;
}

/* ---- temporary names --------------------------------------------------------------------------- */

/* TARGET.clattn-tmp-PROCESS-NUMBER */
static void temporary_name(char *name, size_t capacity, const char *target, int number)
{
    snprintf(name, capacity, "%s" TEMPORARY_INFIX "%ld-%d", target, (long)getpid(), number);
}

static int is_temporary_of(const char *name, const char *target_name)
{
    const size_t length = strlen(target_name), infix = strlen(TEMPORARY_INFIX);
    return strncmp(name, target_name, length) == 0 && strncmp(name + length, TEMPORARY_INFIX, infix) == 0 &&
           name[length + infix + strspn(name + length + infix, "0123456789-")] == 0;
}

/* Of the same target, left by processes that were killed while they wrote. */
static void remove_abandoned(const char *target)
{
    char *folder = strdup(target), *slash = folder ? strrchr(folder, '/') : NULL;
    const char *name = slash ? target + (slash - folder) + 1 : target;
    DIR *stream;
    if (slash) {
        slash[slash == folder] = 0;
    }
    stream = folder ? opendir(slash ? folder : ".") : NULL;
    for (struct dirent *found; stream && (found = readdir(stream)) != NULL;) {
        struct stat about;
        if (is_temporary_of(found->d_name, name) &&
            fstatat(dirfd(stream), found->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
            about.st_uid == geteuid() && about.st_mtime < time(NULL) - ABANDONED_SECONDS) {
            unlinkat(dirfd(stream), found->d_name, 0);
        }
    }
    if (stream) {
        closedir(stream);
    }
    free(folder);
}

/* Creates a temporary file beside the target; *temporary is the caller's. Its mode is that of the file that it
 * replaces, else 0666 less the umask, as for any file that a program writes. */
static int create_temporary(const char *path, const char *target, char **temporary, struct failure *failure)
{
    struct stat about;
    const int replaces = stat(target, &about) == 0;
    int error = replaces ? 0 : errno;
    size_t capacity = strlen(target) + TEMPORARY_BYTES;
    char *name;
    if (replaces && !S_ISREG(about.st_mode)) {
        return failure_misuse(failure, "output %s: must be a regular file or a new name, is a %s", path,
                              S_ISDIR(about.st_mode) ? "directory" : "pipe or device");
    }
    if (error != 0 && error != ENOENT) { /* its mode, which is not to become wider, cannot be told */
        return failure_misuse(failure, "output %s: cannot create: %s", path, strerror(error));
    }
    name = malloc(capacity);
    if (!name) {
        return failure_failed(failure, "out of memory");
    }
    for (int number = 0; number < 100; number++) {
        int opened;
        temporary_name(name, capacity, target, number);
        opened = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, replaces ? 0600 : 0666);
        if (opened >= 0 && (!replaces || fchmod(opened, about.st_mode & 0777) == 0)) {
            *temporary = name;
            return opened;
        }
        error = errno;
        if (opened >= 0) {
            close(opened);
            unlink(name);
        }
        if (opened >= 0 || error != EEXIST) {
            break;
        }
    }
    failure_misuse(failure, "output %s: cannot create: %s", path, strerror(error));
    free(name);
    return -1;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static int write_all(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        ssize_t put = write(descriptor, data, piece);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            errno = put < 0 ? errno : ENOSPC;
            return -1;
        }
        progress_add((uint64_t)put);
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

int output_write_parts(int descriptor, size_t n_parts, const struct file_part *parts)
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

static void forget(struct output *output)
{
    free(output->temporary);
    free(output->target);
    output->temporary = output->target = NULL;
}

void output_abandon(struct output *output)
{
    if (output->temporary) {
        unlink(output->temporary);
    }
    forget(output);
}

static int cannot_write(struct output *output, int error, struct failure *failure)
{
    output_abandon(output);
    return failure_failed(failure, "output %s: cannot write: %s", output->path, strerror(error));
}

int output_write(struct output *output, const char *path, size_t n_parts, const struct file_part *parts,
                 struct failure *failure)
{
    int descriptor = -1, error = 0;
    *output = (struct output){ path, resolve(path, failure), NULL };
    if (output->target) {
        descriptor = create_temporary(path, output->target, &output->temporary, failure);
    }
    if (descriptor < 0) {
        forget(output);
        return -1;
    }
    if (output_write_parts(descriptor, n_parts, parts) != 0 || fsync(descriptor) != 0) {
        error = errno;
    }
    if (close(descriptor) != 0 && !error) {
        error = errno;
    }
    return error ? cannot_write(output, error, failure) : 0;
}

int output_take_place(struct output *output, struct failure *failure)
{
    if (rename(output->temporary, output->target) != 0) {
        return cannot_write(output, errno, failure);
    }
    remove_abandoned(output->target);
    forget(output);
    return 0;
}

int output_check(const char *path, struct failure *failure)
{
    char *target = resolve(path, failure), *temporary = NULL;
    const int descriptor = target ? create_temporary(path, target, &temporary, failure) : -1;
    struct output output = { path, target, temporary };
    if (descriptor >= 0) {
        close(descriptor);
    }
    output_abandon(&output);
    return descriptor >= 0 ? 0 : -1;
}
