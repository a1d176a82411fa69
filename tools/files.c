#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "progress.h"
#include "standard_files.h"
#include "system.h"

#define PIECE_BYTES ((size_t)16 << 20) /* of one read: progress is told between them */

int file_has_suffix(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

static int open_regular(const char *path, int *descriptor, uint64_t *size_bytes, struct failure *failure)
{
    int opened = system_open(path);
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
        ssize_t got = system_read_at(descriptor, to, piece, position);
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

int file_write(const char *path, size_t n_parts, const struct file_part *parts, struct failure *failure)
{
    struct output output;
    if (is_standard_file(path)) {
        return output_write_parts(standard_output(), n_parts, parts) == 0
                   ? 0
                   : failure_failed(failure, "output -: cannot write: %s", strerror(errno));
    }
    return output_write(&output, path, n_parts, parts, failure) == 0 ? output_take_place(&output, failure) : -1;
}

int file_check_output(const char *path, struct failure *failure)
{
    return is_standard_file(path) ? standard_output_keep(failure) : output_check(path, failure);
}
