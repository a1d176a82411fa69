/* A run of this very program in a process of its own. */
#include "part.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "progress.h"

#define THIS_PROGRAM "/proc/self/exe"

int part_check(struct failure *failure)
{
    if (access(THIS_PROGRAM, X_OK) != 0) {
        return failure_failed(failure, THIS_PROGRAM ": %s: by it this program runs itself again", strerror(errno));
    }
    return 0;
}

/* The child: this program, its output and its errors in the pipe. Does not return. */
static void become(const struct part *part, int output)
{
    char words[256], *argv[32] = { "clattn" };
    int argc = 1;
    snprintf(words, sizeof words, "%s", part->words);
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word && argc < 31; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    if (part->device) {
        setenv("CLATTN_DEVICE", part->device, 1);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    execv(THIS_PROGRAM, argv);
    _exit(127);
}

/* Reads until the part ends or its time does; 1 when it had to be ended. */
static int read_output(const struct part *part, pid_t child, int input, struct text *text)
{
    char piece[4096];
    size_t taken = 0;
    int is_late = 0;
    for (;;) {
        struct pollfd waits = { input, POLLIN, 0 };
        const double left_ms = is_late ? 1000 : (part->ends_at - clock_seconds()) * 1000;
        const int ready = left_ms > 0 ? poll(&waits, 1, (int)left_ms + 1) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            if (is_late) {
                return 1; /* what it left holds the pipe open */
            }
            kill(child, SIGKILL);
            is_late = 1;
            continue;
        }
        const ssize_t got = read(input, piece, sizeof piece);
        if (got <= 0) {
            return is_late;
        }
        const size_t room = part->bytes_most - taken, used = (size_t)got < room ? (size_t)got : room;
        text_append(text, "%.*s", (int)used, piece);
        taken += used;
    }
}

int part_run(const struct part *part, struct text *text, struct part_end *end, struct failure *failure)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return failure_failed(failure, "pipe: %s", strerror(errno));
    }
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become(part, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return failure_failed(failure, "fork: %s", strerror(errno));
    }
    end->is_late = read_output(part, child, ends[0], text);
    close(ends[0]);
    while (waitpid(child, &end->status, 0) < 0 && errno == EINTR) {
    }
    return 0;
}

int part_exit_status(const struct part_end *end)
{
    return !end->is_late && WIFEXITED(end->status) ? WEXITSTATUS(end->status) : -1;
}

int part_is_good(const struct part_end *end)
{
    return part_exit_status(end) == 0;
}

void part_describe(const struct part_end *end, char text[PART_END_BYTES])
{
    if (end->is_late) {
        snprintf(text, PART_END_BYTES, "ENDED: it took too long");
    } else if (WIFSIGNALED(end->status)) {
        snprintf(text, PART_END_BYTES, "DIED: signal %d", WTERMSIG(end->status));
    } else {
        snprintf(text, PART_END_BYTES, "exit status %d", WEXITSTATUS(end->status));
    }
}
