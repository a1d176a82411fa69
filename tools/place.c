#define _XOPEN_SOURCE 700
#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INFIX ".clattn-tmp-"
#define APPENDED_BYTES 64 /* to a name */
#define NUMBERS 100

int place_is_temporary_of(const char *name, const char *target_name)
{
    const size_t length = strlen(target_name), infix = strlen(INFIX);
    return strncmp(name, target_name, length) == 0 && strncmp(name + length, INFIX, infix) == 0 &&
           name[length + infix + strspn(name + length + infix, "0123456789-")] == 0;
}

static int cannot_create(const char *path, int error, struct failure *failure)
{
    return failure_misuse(failure, "output %s: cannot create: %s", path, strerror(error));
}

/* TARGET.clattn-tmp-PROCESS-NUMBER, the first one that is free. */
static int open_temporary(const char *target, const char *like, char *name, size_t capacity)
{
    int opened = -1;
    for (int number = 0; number < NUMBERS && opened < 0; number++) {
        snprintf(name, capacity, "%s" INFIX "%ld-%d", target, (long)getpid(), number);
        opened = place_open_new(name, like);
        if (opened < 0 && errno != EEXIST) {
            break;
        }
    }
    return opened;
}

int place_create(const char *path, const char *target, char **temporary, struct failure *failure)
{
    const enum place_kind kind = place_kind_of(target);
    const int error = errno;
    if (kind == PLACE_FOLDER || kind == PLACE_DEVICE) {
        return failure_misuse(failure, "output %s: must be a regular file or a new name, is a %s", path,
                              kind == PLACE_FOLDER ? "directory" : "pipe or device");
    }
    if (kind == PLACE_UNKNOWN) { /* who may read it, which are not to become more, cannot be told */
        return cannot_create(path, error, failure);
    }
    const size_t capacity = strlen(target) + APPENDED_BYTES;
    char *name = malloc(capacity);
    if (!name) {
        return failure_failed(failure, "out of memory");
    }
    const int opened = open_temporary(target, kind == PLACE_FILE ? target : NULL, name, capacity);
    if (opened < 0) {
        cannot_create(path, errno, failure);
        free(name);
        return -1;
    }
    *temporary = name;
    return opened;
}
