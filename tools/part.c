/* A run of this very program in a process of its own. */
#include "part.h"

#include <stdio.h>

#include "progress.h"

#define LAST_WORDS_SECONDS 1 /* for what a process that was ended had printed */

int part_check(struct failure *failure)
{
    return child_check(failure);
}

/* Reads until the part ends or its time does; 1 when it had to be ended. */
static int read_output(const struct part *part, const struct child *child, struct text *text)
{
    char piece[4096];
    size_t taken = 0;
    int is_late = 0;
    for (;;) {
        const double ends_at = is_late ? clock_seconds() + LAST_WORDS_SECONDS : part->ends_at;
        const ptrdiff_t got = child_read(child, piece, sizeof piece, ends_at);
        if (got == 0 || (got < 0 && is_late)) {
            return is_late; /* what it left may hold the pipe open */
        }
        if (got < 0) {
            child_kill(child);
            is_late = 1;
            continue;
        }
        const size_t room = part->bytes_most - taken, used = (size_t)got < room ? (size_t)got : room;
        text_append(text, "%.*s", (int)used, piece);
        taken += used;
    }
}

int part_run(const struct part *part, struct text *text, struct part_end *end, struct failure *failure)
{
    struct child child;
    if (child_start(&child, part->words, part->device, failure) != 0) {
        return -1;
    }
    end->is_late = read_output(part, &child, text);
    child_end(&child, &end->child);
    return 0;
}

int part_exit_status(const struct part_end *end)
{
    return end->is_late ? -1 : end->child.status;
}

int part_is_good(const struct part_end *end)
{
    return part_exit_status(end) == 0;
}

void part_describe(const struct part_end *end, char text[PART_END_BYTES])
{
    if (end->is_late) {
        snprintf(text, PART_END_BYTES, "ENDED: it took too long");
    } else if (end->child.status < 0) {
        snprintf(text, PART_END_BYTES, "DIED: %s", end->child.death);
    } else {
        snprintf(text, PART_END_BYTES, "exit status %d", end->child.status);
    }
}
