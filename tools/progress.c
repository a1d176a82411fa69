#define _XOPEN_SOURCE 700
#include "progress.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define QUIET_SECONDS 2

static struct {
    pthread_mutex_t lock;
    pthread_cond_t over;
    pthread_t thread;
    int running, ended;
    const char *command, *what;
} progress = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, NULL, NULL };

/* Wakes each second until the end. */
static void *report(void *unused)
{
    struct timespec when;
    int shown = 0;
    (void)unused;
    clock_gettime(CLOCK_REALTIME, &when);
    pthread_mutex_lock(&progress.lock);
    for (int seconds = 1; !progress.ended; seconds++) {
        when.tv_sec++;
        while (!progress.ended && pthread_cond_timedwait(&progress.over, &progress.lock, &when) == 0) {
        }
        if (progress.ended || seconds < QUIET_SECONDS) {
            continue;
        }
        fprintf(stderr, "\rclattn %s: %s, %d s ", progress.command, progress.what, seconds);
        shown = 1;
    }
    pthread_mutex_unlock(&progress.lock);
    if (shown) {
        fputs("\r\033[K", stderr);
    }
    return NULL;
}

void progress_begin(const char *command, const char *what)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    progress.command = command;
    progress.what = what;
    progress.ended = 0;
    progress.running = pthread_create(&progress.thread, NULL, report, NULL) == 0;
}

void progress_end(void)
{
    if (!progress.running) {
        return;
    }
    pthread_mutex_lock(&progress.lock);
    progress.ended = 1;
    pthread_cond_signal(&progress.over);
    pthread_mutex_unlock(&progress.lock);
    pthread_join(progress.thread, NULL);
    progress.running = 0;
}

void progress_line(const char *command, const char *text)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    fputs("\r\033[K", stderr);
    if (text[0]) {
        fprintf(stderr, "clattn %s: %s ", command, text);
    }
    fflush(stderr);
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double clock_process_seconds(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}
