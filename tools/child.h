/* A process that runs this very program, or becomes another of clattn's: child_posix.c, or in its place
 * child_windows.c. */
#ifndef CLATTN_TOOLS_CHILD_H
#define CLATTN_TOOLS_CHILD_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"

struct child {
    intptr_t process, output; /* as the system names them */
};

#define CHILD_DEATH_BYTES 40
struct child_end {
    int status;                    /* that it exited with; -1: it died */
    char death[CHILD_DEATH_BYTES]; /* "signal 11" */
};

/* Whether this program can run itself. */
int child_check(struct failure *failure);

/* Starts it with words of a command line, by spaces, and CLATTN_DEVICE, if `device` is one. child_end ends it. */
int child_start(struct child *child, const char *words, const char *device, struct failure *failure);

/* What it prints, errors too, up to `bytes`: waits until the time `ends_at` of clock_seconds. 0: nothing will come any
 * more; -1: nothing came in that time. */
ptrdiff_t child_read(const struct child *child, char *data, size_t bytes, double ends_at);

void child_kill(const struct child *child);

/* Waits for its end. */
void child_end(const struct child *child, struct child_end *end);

/* This process becomes the program `name`, which lies beside this one or among those of clattn that no user calls
 * (libexec), with the words of a command line behind the command. Comes back with a failure only. */
int child_become(const char *name, const char *command, char *const *words, struct failure *failure);

#endif
