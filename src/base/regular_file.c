/* Regular files. */
#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef _WIN32
#define OPEN_FLAGS (O_RDONLY | O_BINARY | O_NOINHERIT)
#else
/* Opening a pipe that nobody writes to must not wait. */
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#endif

FILE *regular_file_open(const char *path)
{
    struct stat about;
    const int file = open(path, OPEN_FLAGS);
    FILE *stream = NULL;
    int reason = errno;
    if (file >= 0) {
        const int is_known = fstat(file, &about) == 0, is_regular = is_known && S_ISREG(about.st_mode);
        stream = is_regular ? fdopen(file, "rb") : NULL;
        reason = is_known && !is_regular ? 0 : errno;
    }
    if (file >= 0 && !stream) {
        close(file);
    }
    errno = reason;
    return stream;
}
