#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <share.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define PATH_BYTES 4096

/* -1, with the reason of the last call in errno. */
static int failed(void)
{
    static const struct {
        DWORD reason;
        int error;
    } rows[] = {
        { ERROR_FILE_NOT_FOUND, ENOENT },    { ERROR_PATH_NOT_FOUND, ENOENT },
        { ERROR_INVALID_NAME, ENOENT },      { ERROR_BAD_NETPATH, ENOENT },
        { ERROR_ACCESS_DENIED, EACCES },     { ERROR_SHARING_VIOLATION, EACCES },
        { ERROR_FILE_EXISTS, EEXIST },       { ERROR_ALREADY_EXISTS, EEXIST },
        { ERROR_NOT_ENOUGH_MEMORY, ENOMEM }, { ERROR_DISK_FULL, ENOSPC },
        { ERROR_HANDLE_DISK_FULL, ENOSPC },  { ERROR_WRITE_PROTECT, EROFS },
        { ERROR_NOT_SAME_DEVICE, EXDEV },    { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
    };
    const DWORD reason = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].reason == reason) {
            errno = rows[i].error;
        }
    }
    return -1;
}

/* Whatever is there, for questions about it. */
static HANDLE look_at(const char *path)
{
    return CreateFileA(path, 0, SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
}

/* ---- where the bytes go ------------------------------------------------------------------------ */

/* Who may make links here has rights beyond those of users; there is no telling who made one. */
char *place_resolve(const char *path, struct failure *failure)
{
    const DWORD attributes = GetFileAttributesA(path);
    const int is_link = attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_REPARSE_POINT;
    char name[PATH_BYTES];
    const char *found = *path ? path : NULL;
    if (is_link) {
        const HANDLE file = look_at(path);
        const DWORD length = file != INVALID_HANDLE_VALUE ? GetFinalPathNameByHandleA(file, name, PATH_BYTES, 0) : 0;
        found = length > 0 && length < PATH_BYTES ? name : NULL;
        if (file != INVALID_HANDLE_VALUE) {
            CloseHandle(file);
        }
    }
    char *target = found ? _strdup(found) : NULL;
    if (!target) {
        errno = ENOENT;
        failure_misuse(failure, "output %s: cannot create: %s", path, strerror(errno));
    }
    return target;
}

enum place_kind place_kind_of(const char *target)
{
    BY_HANDLE_FILE_INFORMATION about;
    const HANDLE file = look_at(target);
    enum place_kind kind = PLACE_FILE;
    if (file == INVALID_HANDLE_VALUE) {
        failed();
        return errno == ENOENT ? PLACE_NEW : PLACE_UNKNOWN;
    }
    if (GetFileType(file) != FILE_TYPE_DISK) {
        kind = PLACE_DEVICE;
    } else if (!GetFileInformationByHandle(file, &about)) {
        failed();
        kind = PLACE_UNKNOWN;
    } else if (about.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
        kind = PLACE_FOLDER;
    } else if (about.dwFileAttributes & FILE_ATTRIBUTE_READONLY) { /* nothing can take its place */
        errno = EACCES;
        kind = PLACE_UNKNOWN;
    }
    CloseHandle(file);
    return kind;
}

/* ---- the temporary file ------------------------------------------------------------------------ */

static int copy_rights(const char *from, const char *to)
{
    DWORD bytes = 0;
    GetFileSecurityA(from, DACL_SECURITY_INFORMATION, NULL, 0, &bytes);
    void *rights = malloc(bytes + 1);
    const int is_done = rights && GetFileSecurityA(from, DACL_SECURITY_INFORMATION, rights, bytes, &bytes) &&
                        SetFileSecurityA(to, DACL_SECURITY_INFORMATION, rights);
    const int result = is_done ? 0 : failed();
    free(rights);
    return result;
}

/* Nobody else can open it until it is closed: not before its rights are set, either. */
int place_open_new(const char *name, const char *like)
{
    const int opened =
        _sopen(name, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _SH_DENYRW, _S_IREAD | _S_IWRITE);
    if (opened >= 0 && like && copy_rights(like, name) != 0) {
        const int error = errno;
        _close(opened);
        DeleteFileA(name);
        errno = error;
        return -1;
    }
    return opened;
}

int place_sync(int descriptor)
{
    return _commit(descriptor);
}

int place_take(const char *temporary, const char *target)
{
    return MoveFileExA(temporary, target, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : failed();
}

/* ---- what was left behind ---------------------------------------------------------------------- */

static int is_abandoned(const WIN32_FIND_DATAA *found)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    const ULARGE_INTEGER from = { { found->ftLastWriteTime.dwLowDateTime, found->ftLastWriteTime.dwHighDateTime } };
    const ULARGE_INTEGER to = { { now.dwLowDateTime, now.dwHighDateTime } };
    return from.QuadPart + PLACE_ABANDONED_SECONDS * 10000000ULL < to.QuadPart;
}

void place_remove_abandoned(const char *target)
{
    char name[PATH_BYTES];
    size_t folder = strlen(target);
    WIN32_FIND_DATAA found;
    while (folder > 0 && !strchr("/\\:", target[folder - 1])) {
        folder--;
    }
    if (snprintf(name, sizeof name, "%s.*", target) >= (int)sizeof name) {
        return;
    }
    const HANDLE search = FindFirstFileA(name, &found);
    for (BOOL more = search != INVALID_HANDLE_VALUE; more; more = FindNextFileA(search, &found)) {
        const int is_whole = snprintf(name, sizeof name, "%.*s%s", (int)folder, target, found.cFileName) <
                             (int)sizeof name;
        if (is_whole && place_is_temporary_of(found.cFileName, target + folder) && is_abandoned(&found)) {
            DeleteFileA(name);
        }
    }
    if (search != INVALID_HANDLE_VALUE) {
        FindClose(search);
    }
}
