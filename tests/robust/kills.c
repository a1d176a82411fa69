/* Processes that fill one cache of compiled programs, killed by SIGKILL at a random moment, two at a time; then one
 * that is not killed: it plans, no damaged program reaches its driver, it writes what is missing, and the next one
 * compiles nothing. On the null driver, so that nothing compiles; at each
 * single file operation tests/robust/file_faults kills.
 *
 * CLATTN_KILLS: how many processes are killed; 60 where it is not set. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/folder.h"
#include "clattn_costs.h"
#include "offline/null_driver.h"
#include "support/random.h"

#define TARGET "gfx1030"
#define PROCESSES 2

/* ---- a process ---------------------------------------------------------------------------------- */

static void drop_kernel(const struct null_kernel *kernel)
{
    (void)kernel;
}

/* Some programs of each type; how many were compiled, -1: refused. */
static int plan_all(void)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };
    clattn_context_costs costs = CLATTN_CONTEXT_COSTS_INIT;
    clattn_context *context;
    int good = 1;
    null_driver_on_kernel(drop_kernel);
    context = null_context_open(TARGET);
    for (int i = 0; i < 3; ++i) {
        clattn_problem problem = CLATTN_PROBLEM_INIT;
        clattn_plan *plan = NULL;
        problem.query_len = problem.key_len = 5;
        problem.head_dim = 8;
        problem.type = types[i];
        problem.strategy = i == 2 ? "staged" : "plain";
        good &= clattn_plan_create(context, &problem, &plan) == CLATTN_OK;
        clattn_plan_destroy(plan);
    }
    clattn_context_get_costs(context, &costs);
    clattn_context_destroy(context);
    return good && null_driver_bad_binaries() == 0 ? (int)costs.compiled : -1;
}

static pid_t start_process(int says_compiled)
{
    const pid_t child = fork();
    if (child == 0) {
        const int compiled = plan_all();
        _exit(compiled < 0 ? 255 : says_compiled ? compiled : 0);
    }
    return child;
}

/* What a process that nobody kills compiled; -1: it was refused, or was given a damaged program. */
static int run_whole(void)
{
    int status = 0;
    const pid_t child = start_process(1);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) < 255 ? WEXITSTATUS(status) : -1;
}

/* ---- the folder --------------------------------------------------------------------------------- */

static void empty_folder(void)
{
    DIR *folder = opendir(folder_path("cache"));
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        unlinkat(dirfd(folder), entry->d_name, 0); /* "." and ".." stay */
    }
    if (folder) {
        closedir(folder);
    }
}

/* ---- kills -------------------------------------------------------------------------------------- */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pause_seconds(double seconds)
{
    const struct timespec pause = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&pause, NULL);
}

/* How long one takes that finds an empty folder. */
static double seconds_of_a_process(void)
{
    double longest = 0;
    for (int i = 0; i < 3; ++i) {
        empty_folder();
        const double start = now_seconds();
        EXPECT(run_whole() > 0);
        const double took = now_seconds() - start;
        longest = took > longest ? took : longest;
    }
    return longest;
}

/* 1: one of them did not live to its end. */
static int kill_some(struct random *random, double seconds)
{
    pid_t children[PROCESSES];
    int struck = 0;
    for (int i = 0; i < PROCESSES; ++i) {
        children[i] = start_process(0);
    }
    pause_seconds(seconds * random_unit(random));
    for (int i = 0; i < PROCESSES; ++i) {
        int status = 0;
        kill(children[i], SIGKILL);
        waitpid(children[i], &status, 0);
        struck += WIFSIGNALED(status);
        EXPECT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    }
    return struck;
}

int main(void)
{
    const char *text = getenv("CLATTN_KILLS");
    const int wanted = text && text[0] ? atoi(text) : 60;
    int kills = 0, halves = 0, trials = 0;
    folder_begin();
    setenv("CLATTN_CACHE", "on", 1);
    setenv("CLATTN_CACHE_DIR", folder_path("cache"), 1);
    setenv("CLATTN_SELF_CHECK", "off", 1);
    const double seconds = seconds_of_a_process();
    for (; kills < wanted && trials < 20 * wanted; ++trials) {
        struct random random = random_start(4, (uint64_t)trials);
        if (trials % 4 != 3) { /* else over what the last ones left */
            empty_folder();
        }
        kills += kill_some(&random, seconds);
        const int compiled = run_whole();
        EXPECT(compiled >= 0);
        halves += compiled > 0;
        EXPECT(run_whole() == 0);
    }
    printf("%d processes killed in %d trials, %d of which left programs to be compiled\n", kills, trials, halves);
    EXPECT(kills >= wanted && halves > 0);
    folder_end();
    return report();
}
