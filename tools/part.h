/* A run of this very program in a process of its own, with an end, so that a driver that dies or hangs costs the run
 * alone. */
#ifndef CLATTN_TOOLS_PART_H
#define CLATTN_TOOLS_PART_H

#include <stddef.h>

#include "child.h"
#include "failure.h"
#include "insides.h"

struct part {
    const char *words;  /* of the command line after "clattn", by spaces */
    const char *device; /* NULL: CLATTN_DEVICE, else the best */
    double ends_at;     /* by clock_seconds */
    size_t bytes_most;  /* of its output; what comes after is left out */
};

struct part_end {
    struct child_end child;
    int is_late; /* it took too long, and was ended */
};

/* Whether this program can run itself. */
int part_check(struct failure *failure);

/* Appends what it prints, errors too, to `text`. */
int part_run(const struct part *part, struct text *text, struct part_end *end, struct failure *failure);

int part_is_good(const struct part_end *end);
int part_exit_status(const struct part_end *end); /* -1: it died or was ended */

#define PART_END_BYTES 64
void part_describe(const struct part_end *end, char text[PART_END_BYTES]);

#endif
