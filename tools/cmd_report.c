/* clattn report: what this machine's OpenCL makes of clattn, in one small file to send in. Each part is a run of this
 * very program in a process of its own, with an end, so that a driver that dies or hangs costs its part alone. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "clattn.h"
#include "commands.h"
#include "files.h"
#include "progress.h"
#include "utf8.h"

#define THIS_PROGRAM "/proc/self/exe"
#define DEFAULT_FILE "clattn-report.txt"
#define REPORT_SECONDS 600
#define PART_SECONDS 150
#define PART_BYTES_MOST 32768 /* what comes after it is left out, which is said */

/* Words of a command line after "clattn", by spaces. The check's shape has no round number in it. */
#define CHECK "bench --shape 2,4,2,7,333,72,40 --seconds 0 --lse"
#define HIDING " --causal bottom-right --key-lengths --sinks"
#define MEASURE "bench --seconds 0.2 --read"
static const char *const parts[] = {
    "devices",
    "explain --shape 1,8,8,2048,2048,128 --dtype f16",
    "explain --shape 1,32,8,1,4096,128 --dtype f16",
    CHECK,
    CHECK " --strategy plain" HIDING,
    CHECK " --strategy staged" HIDING,
    CHECK " --strategy fused_simt" HIDING,
    CHECK " --strategy split_simt" HIDING,
    CHECK " --dtype f16 --strategy fused_simt" HIDING,
    CHECK " --dtype f16 --strategy split_simt" HIDING,
    CHECK " --dtype f16 --strategy fused_mma" HIDING,
    CHECK " --dtype bf16 --strategy fused_mma" HIDING,
    MEASURE " --dtype f16",
    MEASURE " --dtype f32",
    MEASURE " --dtype bf16",
};
enum { PARTS = sizeof parts / sizeof *parts };

struct report {
    const char *device; /* NULL: CLATTN_DEVICE, else the best */
    struct text text;
    double ends_at; /* by clock_seconds */
    int good, bad, left_out;
};

/* ---- one part ---- */

/* The child: this program, its output and its errors in the pipe. Does not return. */
static void become_part(const struct report *report, const char *part, int output)
{
    char words[256], *argv[32] = { "clattn" };
    int argc = 1;
    snprintf(words, sizeof words, "%s", part);
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word && argc < 31; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    if (report->device) {
        setenv("CLATTN_DEVICE", report->device, 1);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    execv(THIS_PROGRAM, argv);
    _exit(127);
}

/* Reads until the part ends or its time does; 1 when it had to be ended. */
static int read_part(struct report *report, pid_t child, int input, double ends_at)
{
    char piece[4096];
    size_t taken = 0;
    int is_late = 0;
    for (;;) {
        struct pollfd waits = { input, POLLIN, 0 };
        const double left_ms = is_late ? 1000 : (ends_at - clock_seconds()) * 1000;
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
        const size_t room = PART_BYTES_MOST - taken, used = (size_t)got < room ? (size_t)got : room;
        text_append(&report->text, "%.*s", (int)used, piece);
        taken += used;
    }
}

static void append_end(struct report *report, int status, int is_late)
{
    char end[64];
    const int is_good = !is_late && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    report->good += is_good;
    report->bad += !is_good;
    if (is_late) {
        snprintf(end, sizeof end, "ENDED: it took too long");
    } else if (WIFSIGNALED(status)) {
        snprintf(end, sizeof end, "DIED: signal %d", WTERMSIG(status));
    } else {
        snprintf(end, sizeof end, "exit status %d", WEXITSTATUS(status));
    }
    printf("%s\n", end);
    text_append(&report->text, "-> %s\n", end);
}

static int run_part(struct report *report, const char *part, struct failure *failure)
{
    int ends[2], status = 0;
    const double starts_at = clock_seconds(), least = starts_at + PART_SECONDS;
    const double ends_at = least < report->ends_at ? least : report->ends_at;
    text_append(&report->text, "\n$ clattn %s\n", part);
    if (starts_at >= report->ends_at) {
        report->left_out++;
        text_append(&report->text, "-> left out: the report has ten minutes\n");
        return 0;
    }
    printf("clattn %s: ", part);
    fflush(stdout);
    if (pipe(ends) != 0) {
        return failure_failed(failure, "pipe: %s", strerror(errno));
    }
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become_part(report, part, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return failure_failed(failure, "fork: %s", strerror(errno));
    }
    const int is_late = read_part(report, child, ends[0], ends_at);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    append_end(report, status, is_late);
    return 0;
}

/* ---- the command ---- */

static void begin(struct report *report)
{
    struct utsname system;
    char date[32] = "";
    const time_t seconds = time(NULL);
    struct tm day;
    if (gmtime_r(&seconds, &day)) {
        strftime(date, sizeof date, "%Y-%m-%d", &day);
    }
    const int is_known = uname(&system) == 0;
    text_append(&report->text, "clattn %s, %s, %s %s %s\n", clattn_version(), date,
                is_known ? system.sysname : "an unknown system", is_known ? system.release : "",
                is_known ? system.machine : "");
}

static int write_report(struct report *report, const char *path, struct failure *failure)
{
    if (report->text.failed) {
        return failure_failed(failure, "out of memory for a report");
    }
    utf8_clean_in_place(report->text.data, "\n\t"); /* names are a driver's */
    const struct file_part whole = { report->text.data, strlen(report->text.data) };
    const int result = file_write(path, 1, &whole, failure);
    if (result == 0) {
        printf("%s: %zu bytes; %d parts good, %d not, %d left out. It names the device, its driver and the system, and "
               "nothing else of yours.\n",
               path, whole.bytes, report->good, report->bad, report->left_out);
    }
    return result;
}

static int run(const struct options *options, struct failure *failure)
{
    const char *path = options->value[OPTION_REPORT] ? options->value[OPTION_REPORT] : DEFAULT_FILE;
    struct report report = { .device = options->value[OPTION_DEVICE],
                             .text = TEXT_INIT,
                             .ends_at = clock_seconds() + REPORT_SECONDS };
    if (access(THIS_PROGRAM, X_OK) != 0) {
        return failure_failed(failure, THIS_PROGRAM ": %s: a report runs this program again by it", strerror(errno));
    }
    int result = file_check_output(path, failure);
    begin(&report);
    for (int i = 0; i < PARTS && result == 0; i++) {
        result = run_part(&report, parts[i], failure);
    }
    if (result == 0) {
        result = write_report(&report, path, failure);
    }
    text_free(&report.text);
    return result;
}

static const struct option_group groups[] = {
    { "Options", { OPTION_DEVICE, OPTION_REPORT, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_report = {
    "report",
    "Writes down in one small file what this machine's OpenCL makes of clattn: devices, plans, each strategy checked "
    "against the float64 reference, times of the standard shapes beside a plain read of the memory. Takes ten minutes "
    "at most. Send it in: most devices were never seen by those who wrote clattn.",
    "[OPTION]...",
    NULL,
    groups,
    "A part whose driver dies or hangs is told so, and the others go on.\n"
    "Example:\n  clattn report --device gpu\n",
    run,
};
