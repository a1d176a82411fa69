/* The counters. */
#include "declined.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define R(name, text) text,
static const char *const reason_text[DECLINED_COUNT] = { DECLINED_REASONS(R) };
#undef R
static atomic_ulong claimed, computed, planned, declined[DECLINED_COUNT];

/* Set, neither empty nor "0". */
static int log_is_on(void)
{
    const char *value = getenv("CLATTN_ORT_LOG");
    return value && *value && strcmp(value, "0") != 0;
}

void declined_count(enum declined reason, const char *operation)
{
    if (reason != DECLINED_NOT && atomic_fetch_add(&declined[reason], 1) == 0 && log_is_on()) {
        fprintf(stderr, "onnxruntime-ep-clattn: %s left to another provider: %s\n", operation, reason_text[reason]);
    }
}

void claimed_count(void)
{
    atomic_fetch_add(&claimed, 1);
}

void computed_count(void)
{
    atomic_fetch_add(&computed, 1);
}

void planned_count(void)
{
    atomic_fetch_add(&planned, 1);
}

static void add_line(char *text, size_t size, size_t *length, unsigned long count, const char *what)
{
    const size_t at = *length < size ? *length : size;
    const int added = snprintf(at < size ? text + at : NULL, size - at, "%lu %s\n", count, what);
    *length += added > 0 ? (size_t)added : 0;
}

size_t clattn_ort_report(char *text, size_t size)
{
    size_t length = 0;
    add_line(text, size, &length, atomic_load(&claimed), "nodes claimed");
    add_line(text, size, &length, atomic_load(&computed), "nodes computed");
    add_line(text, size, &length, atomic_load(&planned), "plans made");
    for (int reason = 0; reason < DECLINED_COUNT; ++reason) {
        const unsigned long count = atomic_load(&declined[reason]);
        if (count > 0) {
            add_line(text, size, &length, count, reason_text[reason]);
        }
    }
    return length;
}

void log_report(void)
{
    char text[2048];
    if (!log_is_on()) {
        return;
    }
    clattn_ort_report(text, sizeof(text));
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        fprintf(stderr, "onnxruntime-ep-clattn: %.*s\n", (int)(end - line), line);
    }
}
