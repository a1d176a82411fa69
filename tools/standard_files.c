#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "standard_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"
#include "system.h"

#define PIECE_BYTES ((size_t)1 << 20)

int is_standard_file(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* ---- input ------------------------------------------------------------------------------------ */

static int cannot_be_kept(struct failure *failure)
{
    const int error = errno;
    const char *variable, *folder = system_temporary_folder(&variable);
    return failure_failed(failure, "standard input: cannot be kept in a temporary file in %s: %s; %s names another",
                          folder, strerror(error), variable);
}

/* All that comes, into the file. */
static int keep_input(FILE *file, uint64_t *size_bytes, struct failure *failure)
{
    char *piece = malloc(PIECE_BYTES);
    int result = piece ? 0 : failure_failed(failure, "out of memory");
    for (ssize_t got = 1; result == 0 && got != 0;) {
        got = system_read(STDIN_FILENO, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            result = failure_misuse(failure, "standard input: cannot read: %s", strerror(errno));
        } else if (fwrite(piece, 1, (size_t)got, file) != (size_t)got) {
            result = cannot_be_kept(failure);
        } else {
            *size_bytes += (uint64_t)got;
            progress_add((uint64_t)got);
        }
    }
    free(piece);
    if (result == 0 && fflush(file) != 0) {
        result = cannot_be_kept(failure);
    }
    progress_take_back(*size_bytes);
    return result;
}

static int own_descriptor(int descriptor, int *own, struct failure *failure)
{
    *own = system_own_descriptor(descriptor);
    return *own >= 0 ? 0 : failure_failed(failure, "standard input or output: %s", strerror(errno));
}

int standard_input_open(int *descriptor, uint64_t *size_bytes, struct failure *failure)
{
    struct stat about;
    if (system_is_terminal(STDIN_FILENO)) {
        return failure_misuse(failure, "file -: standard input is a terminal; pipe a file in, or name one");
    }
    if (fstat(STDIN_FILENO, &about) == 0 && S_ISREG(about.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
        *size_bytes = (uint64_t)about.st_size;
        return own_descriptor(STDIN_FILENO, descriptor, failure);
    }
    FILE *file = system_nameless_file();
    int result = file ? 0 : cannot_be_kept(failure);
    *size_bytes = 0;
    if (result == 0) {
        result = keep_input(file, size_bytes, failure);
    }
    if (result == 0) {
        result = own_descriptor(fileno(file), descriptor, failure);
    }
    if (file) {
        fclose(file);
    }
    return result;
}

/* ---- output ----------------------------------------------------------------------------------- */

static int kept_output = -1;

int standard_output_keep(struct failure *failure)
{
    if (kept_output >= 0) {
        return 0;
    }
    if (system_is_terminal(STDOUT_FILENO)) {
        return failure_misuse(failure, "output -: standard output is a terminal; redirect it, or name a file");
    }
    fflush(stdout);
    if (own_descriptor(STDOUT_FILENO, &kept_output, failure) != 0) {
        return -1;
    }
    return dup2(STDERR_FILENO, STDOUT_FILENO) >= 0
               ? 0
               : failure_failed(failure, "output -: cannot be kept for the file: %s", strerror(errno));
}

int standard_output(void)
{
    return kept_output;
}
