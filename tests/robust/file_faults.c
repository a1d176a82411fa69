/* Every file operation may fail, at every index, and a process may be killed there: what keeps compiled programs,
 * wisdom and verdicts, what reads kernels, and what the command reads and writes (file_steps.c). For each step, each
 * kind of fault and each number n, in processes of their own, the n-th operation fails. Then
 *   - the step works without, or says why, and what was there before is there still
 *   - no file is ever half of one, and no damaged program reaches the driver
 *   - the step works when it is repeated, in the same process and in the next one, and what it writes is there
 *   - no descriptor stays open; what a killed process left behind goes an hour later
 * On the null driver, so that nothing compiles. CLATTN_TEST_STEP: of the steps, only those with this in their names;
 * CLATTN_TEST_FAULTS=N: of the numbers every Nth. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/folder.h"
#include "failing_files.h"
#include "file_steps.h"

#define OPERATIONS_MAX 2000
#define AGE_SECONDS 7200

static const struct failing_files_fault faults[] = {
    { "ENOSPC", FILES_FAIL, ENOSPC },
    { "EACCES", FILES_FAIL, EACCES },
    { "EIO", FILES_FAIL, EIO },
    { "EINTR", FILES_FAIL, EINTR },
    { "ENOSPC from then on", FILES_FAIL_ON, ENOSPC },
    { "EIO from then on", FILES_FAIL_ON, EIO },
    { "half of the bytes", FILES_SHORT, 0 },
    { "killed before", FILES_KILL_BEFORE, 0 },
    { "killed within or after", FILES_KILL_BETWEEN, 0 },
};

/* What a process in the middle of a trial says by its exit status; any other: it failed. */
enum outcome { OVER = 40, STRUCK };

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("    at %s: ", failing_files_struck());                                                             \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- the folder ------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void fresh_folder(void)
{
    nftw(folder_path(""), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (mkdir(folder_path(""), 0700) != 0) {
        perror(folder_path(""));
        exit(1);
    }
}

static int temporaries;

static int is_temporary(const char *name)
{
    return strncmp(name, ".clattn-", 8) == 0 || strstr(name, "clattn-tmp-") != NULL;
}

static int count_and_age(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    const struct timespec long_ago[2] = { { time(NULL) - AGE_SECONDS, 0 }, { time(NULL) - AGE_SECONDS, 0 } };
    (void)about;
    (void)kind;
    if (is_temporary(path + walk->base)) {
        ++temporaries;
        utimensat(AT_FDCWD, path, long_ago, AT_SYMLINK_NOFOLLOW);
    }
    return 0;
}

/* Temporary files that are there; from now on they are hours old. */
static int old_temporaries(void)
{
    temporaries = 0;
    nftw(folder_path(""), count_and_age, 16, FTW_PHYS);
    return temporaries;
}

static int open_descriptors(void)
{
    DIR *stream = opendir("/proc/self/fd");
    int count = 0;
    while (stream && readdir(stream)) {
        ++count;
    }
    if (stream) {
        closedir(stream);
    }
    return count;
}

/* ---- processes of a trial --------------------------------------------------------------------- */

static void set_environment(const struct step *step)
{
    for (int i = 0; i < ENVIRONMENT_NAMES && step->environment[i].name; ++i) {
        const char *value = step->environment[i].value;
        char path[FOLDER_PATH_BYTES];
        snprintf(path, sizeof(path), "%s/cl", getenv("srcdir") ? getenv("srcdir") : ".");
        setenv(step->environment[i].name, value[0] == '@' ? folder_path(value + 1) : value[0] == '$' ? path : value, 1);
    }
}

struct trial {
    const struct step *step;
    const struct failing_files_fault *fault;
    long n;
};

/* Why it was refused must be said; of one failed operation, with the reason that the system gave. */
static void check_message(const struct trial *trial, const char *message)
{
    CHECK(message[0], "refused without a message");
    CHECK(!trial->step->works_without, "refused: %s", message);
    CHECK(strcmp(message, "not written") == 0 || trial->fault->kind != FILES_FAIL ||
              strstr(message, strerror(trial->fault->error)) || strstr(message, "CLATTN_BINARY_DIR"),
          "the reason is not told: %s", message);
}

static void prepare(const struct trial *trial)
{
    if (trial->step->prepare) {
        trial->step->prepare();
    }
    exit(0);
}

/* The fault; then, where the process is still there, the same without it. */
static void suffer(const struct trial *trial)
{
    const struct step *step = trial->step;
    char message[MESSAGE_BYTES] = "";
    const int before = open_descriptors();
    failing_files_start(trial->fault, trial->n);
    const int done = step->run(message), struck = failing_files_stop();
    CHECK(open_descriptors() == before, "%d descriptors were open, now %d", before, open_descriptors());
    if (!done) {
        CHECK(struck, "refused without a fault: %s", message);
        check_message(trial, message);
    }
    if (step->look_at_once) {
        const enum file_state state = step->look();
        CHECK(state == (done ? STATE_NEW : STATE_OLD), "what is there is %s",
              state == STATE_OLD   ? "the old one"
              : state == STATE_NEW ? "the new one"
                                   : "neither the old nor the new one");
    }
    if (!struck) {
        exit(OVER);
    }
    CHECK(step->run(message), "refused without a fault, in the same process: %s", message);
    CHECK(open_descriptors() == before, "%d descriptors were open, now %d", before, open_descriptors());
    exit(STRUCK);
}

/* The next process. */
static void recover(const struct trial *trial)
{
    const struct step *step = trial->step;
    char message[MESSAGE_BYTES] = "";
    if (step->look_at_once) {
        CHECK(step->look() != STATE_TORN, "what is there is neither the old nor the new one");
    }
    const int left = old_temporaries();
    CHECK(step->run(message), "the next process is refused: %s", message);
    if (left && step->later) {
        step->later();
    }
    CHECK(old_temporaries() == 0, "%d temporary files stay for ever", temporaries);
    CHECK(!step->look || step->look() == STATE_NEW, "what is there is not the new one");
    exit(0);
}

/* Its exit status; -1: a signal ended it. */
static int in_process(const struct trial *trial, void (*function)(const struct trial *trial))
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        set_environment(trial->step);
        function(trial);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(1);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* 1: it struck and all is well; 0: it did not strike, there are no more; -1: it failed. */
static int try_fault(const struct trial *trial)
{
    fresh_folder();
    if (in_process(trial, prepare) != 0) {
        return -1;
    }
    const int outcome = in_process(trial, suffer);
    if (outcome == OVER) {
        return 0;
    }
    return (outcome == STRUCK || outcome == FAILING_FILES_KILLED) && in_process(trial, recover) == 0 ? 1 : -1;
}

static int passed, failed;
static long pace = 1; /* from a number to the next */

static void run_step(const struct step *step, const struct failing_files_fault *fault)
{
    struct trial trial = { step, fault, 1 };
    int result;
    while ((result = try_fault(&trial)) > 0 && trial.n < OPERATIONS_MAX) {
        trial.n += pace;
    }
    const int ok = result == 0 && (trial.n > 1 || fault->kind == FILES_SHORT);
    printf("%s %s, %s: %ld faults\n", ok ? "ok    " : "FAILED", step->name, fault->name, (trial.n - 1) / pace);
    passed += ok;
    failed += !ok;
}

int main(void)
{
    const char *chosen = getenv("CLATTN_TEST_STEP"), *every = getenv("CLATTN_TEST_FAULTS");
    pace = every && atol(every) > 0 ? atol(every) : 1;
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_WISDOM_DIR", "", 1);
    setenv("CLATTN_SELF_CHECK", "off", 1);
    folder_begin();
    for (size_t s = 0; s < step_count; ++s) {
        for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); ++f) {
            if (!chosen || strstr(steps[s].name, chosen)) {
                run_step(&steps[s], &faults[f]);
            }
        }
    }
    folder_end();
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
