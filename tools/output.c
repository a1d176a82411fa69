#define _XOPEN_SOURCE 700
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "place.h"
#include "progress.h"
#include "system.h"

#define PIECE_BYTES ((size_t)16 << 20) /* of one write: progress is told between them */

static int write_all(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        ssize_t put = system_write(descriptor, data, piece);
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
    *output = (struct output){ path, place_resolve(path, failure), NULL };
    if (output->target) {
        descriptor = place_create(path, output->target, &output->temporary, failure);
    }
    if (descriptor < 0) {
        forget(output);
        return -1;
    }
    if (output_write_parts(descriptor, n_parts, parts) != 0 || place_sync(descriptor) != 0) {
        error = errno;
    }
    if (close(descriptor) != 0 && !error) {
        error = errno;
    }
    return error ? cannot_write(output, error, failure) : 0;
}

int output_take_place(struct output *output, struct failure *failure)
{
    if (place_take(output->temporary, output->target) != 0) {
        return cannot_write(output, errno, failure);
    }
    place_remove_abandoned(output->target);
    forget(output);
    return 0;
}

int output_check(const char *path, struct failure *failure)
{
    char *target = place_resolve(path, failure), *temporary = NULL;
    const int descriptor = target ? place_create(path, target, &temporary, failure) : -1;
    struct output output = { path, target, temporary };
    if (descriptor >= 0) {
        close(descriptor);
    }
    output_abandon(&output);
    return descriptor >= 0 ? 0 : -1;
}
