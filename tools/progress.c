#define _XOPEN_SOURCE 700
#include "progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "labels.h"
#include "system.h"

#define QUIET_SECONDS 2
#define COLUMNS_DEFAULT 80
#define MANY_BYTES 100e6
#define BAR_CELLS 24

static struct {
    pthread_mutex_t lock;
    pthread_cond_t over;
    pthread_t thread;
    int running, ended;
    const char *command, *what;
    const char *subject;
    size_t number, of;
} progress = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };

static atomic_ullong expected_bytes, done_bytes; /* of the progress that is shown */
static atomic_uint expected_steps, done_steps;

/* " [######..................] 150 of 600". */
static void bar_text(char *text, size_t size, unsigned done, unsigned of)
{
    char bar[BAR_CELLS + 1];
    const unsigned full = (unsigned)((double)done / of * BAR_CELLS);
    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', full < BAR_CELLS ? full : BAR_CELLS);
    bar[BAR_CELLS] = 0;
    snprintf(text, size, " [%s] %u of %u", bar, done, of);
}

void progress_amount(char *text, size_t size)
{
    const unsigned of = atomic_load(&expected_steps);
    if (of > 0) {
        bar_text(text, size, atomic_load(&done_steps), of);
        return;
    }
    const double all = (double)atomic_load(&expected_bytes), done = (double)atomic_load(&done_bytes);
    text[0] = 0;
    if (all >= MANY_BYTES && all >= done) {
        snprintf(text, size, ", %.1f of %.1f GB", done / 1e9, all / 1e9);
    } else if (done >= MANY_BYTES) { /* of a pipe nobody knows how much will come */
        snprintf(text, size, ", %.1f GB", done / 1e9);
    }
}

void progress_expect(uint64_t bytes)
{
    atomic_fetch_add(&expected_bytes, bytes);
}

void progress_add(uint64_t bytes)
{
    atomic_fetch_add(&done_bytes, bytes);
}

void progress_take_back(uint64_t bytes)
{
    atomic_fetch_sub(&done_bytes, bytes);
}

void progress_steps(unsigned done, unsigned of)
{
    atomic_store(&done_steps, done);
    atomic_store(&expected_steps, of);
}

void progress_subject(const char *name, size_t number, size_t of)
{
    progress.subject = name;
    progress.number = number;
    progress.of = of;
}

/* ", 3 of 14: ", or what else stands between the subject and the text. */
static void place_text(char *text, size_t size)
{
    if (!progress.subject) {
        text[0] = 0;
    } else if (progress.of > 1) {
        snprintf(text, size, ", %zu of %zu: ", progress.number, progress.of);
    } else {
        snprintf(text, size, ": ");
    }
}

/* In the terminal's line, with a blank behind it for the cursor. */
static void put_line(const char *command, const char *text)
{
    const char *subject = progress.subject ? progress.subject : "";
    const int columns = system_terminal_columns(STDERR_FILENO);
    const int room = (columns > 0 ? columns : COLUMNS_DEFAULT) - 2;
    char place[64], line[512];
    place_text(place, sizeof place);
    const int left = room - utf8_columns(text) - (int)(strlen("clattn : ") + strlen(command) + strlen(place));
    snprintf(line, sizeof line, "clattn %s: %.*s%s%s", command, (int)utf8_fit(subject, left > 0 ? left : 0), subject,
             place, text);
    fprintf(stderr, "\r\033[K%.*s ", (int)utf8_fit(line, room > 0 ? room : 0), line);
    fflush(stderr);
}

/* Wakes each second until the end. */
static void *report(void *unused)
{
    struct timespec when;
    char amount[64], text[160];
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
        progress_amount(amount, sizeof amount);
        snprintf(text, sizeof text, "%s%s, %d s", progress.what, amount, seconds);
        put_line(progress.command, text);
        shown = 1;
    }
    pthread_mutex_unlock(&progress.lock);
    if (shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    return NULL;
}

void progress_begin(const char *command, const char *what)
{
    if (!system_is_terminal(STDERR_FILENO)) {
        return;
    }
    progress.command = command;
    progress.what = what;
    progress.ended = 0;
    atomic_store(&expected_bytes, 0);
    atomic_store(&done_bytes, 0);
    progress_steps(0, 0);
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
    if (!system_is_terminal(STDERR_FILENO)) {
        return;
    }
    if (text[0]) {
        put_line(command, text);
        return;
    }
    fputs("\r\033[K", stderr);
    fflush(stderr);
}

static int end_line(void)
{
    const ssize_t put = system_write(STDERR_FILENO, "\n", 1);
    (void)put;
    return 0;
}

void progress_end_line_at_interrupt(void)
{
    if (system_is_terminal(STDERR_FILENO) && !system_ignores_interrupts()) {
        system_at_interrupt(end_line);
    }
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
