/* The counters of a plug-in. */
#include "counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int counts_are_logged(const struct counts *counts)
{
    const char *value = getenv(counts->variable);
    return value && *value && strcmp(value, "0") != 0;
}

unsigned long counts_add(const struct counts *counts, size_t row)
{
    return atomic_fetch_add(&counts->row[row].times, 1);
}

size_t counts_report(const struct counts *counts, char *text, size_t size)
{
    size_t length = 0;
    for (size_t row = 0; row < counts->rows; ++row) {
        const unsigned long times = atomic_load(&counts->row[row].times);
        if (times > 0 || row < counts->always) {
            const size_t at = length < size ? length : size;
            const int added =
                snprintf(at < size ? text + at : NULL, size - at, "%lu %s\n", times, counts->row[row].what);
            length += added > 0 ? (size_t)added : 0;
        }
    }
    return length;
}

void counts_log(const struct counts *counts)
{
    char text[2048];
    if (!counts_are_logged(counts)) {
        return;
    }
    counts_report(counts, text, sizeof(text));
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        fprintf(stderr, "%s: %.*s\n", counts->plugin, (int)(end - line), line);
    }
}
