#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX 40 /* behind one another */

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

char *place_resolve(const char *path, struct failure *failure)
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

/* ---- the temporary file ------------------------------------------------------------------------ */

enum place_kind place_kind_of(const char *target)
{
    struct stat about;
    if (stat(target, &about) != 0) {
        return errno == ENOENT ? PLACE_NEW : PLACE_UNKNOWN;
    }
    return S_ISREG(about.st_mode) ? PLACE_FILE : S_ISDIR(about.st_mode) ? PLACE_FOLDER : PLACE_DEVICE;
}

int place_open_new(const char *name, const char *like)
{
    struct stat about;
    if (like && stat(like, &about) != 0) {
        return -1;
    }
    const int opened = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, like ? 0600 : 0666);
    if (opened >= 0 && like && fchmod(opened, about.st_mode & 0777) != 0) {
        const int error = errno;
        close(opened);
        unlink(name);
        errno = error;
        return -1;
    }
    return opened;
}

int place_sync(int descriptor)
{
    return fsync(descriptor);
}

int place_take(const char *temporary, const char *target)
{
    return rename(temporary, target);
}

void place_remove_abandoned(const char *target)
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
        if (place_is_temporary_of(found->d_name, name) &&
            fstatat(dirfd(stream), found->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
            about.st_uid == geteuid() && about.st_mtime < time(NULL) - PLACE_ABANDONED_SECONDS) {
            unlinkat(dirfd(stream), found->d_name, 0);
        }
    }
    if (stream) {
        closedir(stream);
    }
    free(folder);
}
