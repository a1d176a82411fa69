#define _XOPEN_SOURCE 700
#include "child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "progress.h"

#define THIS_PROGRAM "/proc/self/exe"
#ifndef CLATTN_LIBEXEC_DIR
#define CLATTN_LIBEXEC_DIR "."
#endif
#define WORDS_MOST 256
#define PATH_BYTES 4096

int child_check(struct failure *failure)
{
    if (access(THIS_PROGRAM, X_OK) != 0) {
        return failure_failed(failure, THIS_PROGRAM ": %s: by it this program runs itself again", strerror(errno));
    }
    return 0;
}

/* The child: this program, its output and its errors in the pipe. Does not return. */
static void become(const char *of_line, const char *device, int output)
{
    char words[256], *argv[32] = { "clattn" };
    int argc = 1;
    snprintf(words, sizeof words, "%s", of_line);
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word && argc < 31; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    if (device) {
        setenv("CLATTN_DEVICE", device, 1);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    execv(THIS_PROGRAM, argv);
    _exit(127);
}

int child_start(struct child *child, const char *words, const char *device, struct failure *failure)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return failure_failed(failure, "pipe: %s", strerror(errno));
    }
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        become(words, device, ends[1]);
    }
    close(ends[1]);
    if (process < 0) {
        close(ends[0]);
        return failure_failed(failure, "fork: %s", strerror(errno));
    }
    *child = (struct child){ process, ends[0] };
    return 0;
}

ptrdiff_t child_read(const struct child *child, char *data, size_t bytes, double ends_at)
{
    struct pollfd waits = { (int)child->output, POLLIN, 0 };
    int ready;
    do {
        const double left_ms = (ends_at - clock_seconds()) * 1000;
        ready = left_ms > 0 ? poll(&waits, 1, (int)left_ms + 1) : 0;
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
        return -1;
    }
    const ssize_t got = read((int)child->output, data, bytes);
    return got > 0 ? got : 0;
}

void child_kill(const struct child *child)
{
    kill((pid_t)child->process, SIGKILL);
}

void child_end(const struct child *child, struct child_end *end)
{
    int status = 0;
    close((int)child->output);
    while (waitpid((pid_t)child->process, &status, 0) < 0 && errno == EINTR) {
    }
    *end = (struct child_end){ WIFEXITED(status) ? WEXITSTATUS(status) : -1, "" };
    if (WIFSIGNALED(status)) {
        snprintf(end->death, sizeof end->death, "signal %d", WTERMSIG(status));
    }
}

/* The folder of this program, and a slash. */
static void find_folder(char folder[PATH_BYTES])
{
    const ssize_t length = readlink(THIS_PROGRAM, folder, PATH_BYTES - 1);
    folder[length > 0 ? length : 0] = 0;
    char *slash = strrchr(folder, '/');
    *(slash ? slash + 1 : folder) = 0;
}

int child_become(const char *name, const char *command, char *const *words, struct failure *failure)
{
    char folder[PATH_BYTES], beside[PATH_BYTES + 64], kept[sizeof CLATTN_LIBEXEC_DIR + 64];
    char *argv[WORDS_MOST + 3] = { (char *)name, (char *)command };
    int argc = 2;
    for (; *words; words++) {
        if (argc == WORDS_MOST + 2) {
            return failure_misuse(failure, "%s: more than %d words; give fewer", *words, WORDS_MOST);
        }
        argv[argc++] = *words;
    }
    find_folder(folder);
    snprintf(beside, sizeof beside, "%s%.60s", folder, name);
    snprintf(kept, sizeof kept, CLATTN_LIBEXEC_DIR "/%.60s", name);
    execv(beside, argv);
    execv(kept, argv);
    return failure_failed(
        failure,
        "%s: %s: is not there, and not beside this program: clattn was built without MPI, or its part "
        "for MPI is not installed",
        kept, strerror(errno));
}
