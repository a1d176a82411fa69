/* The engine ends at the first error, with a line that says what is wrong. */
#ifndef GENERATE_FAILURE_H
#define GENERATE_FAILURE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__GNUC__)
__attribute__((noreturn, format(printf, 1, 2)))
#endif
static inline void
fail(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    for (char *at = line; *at; ++at) { /* names from a file may hold what a terminal would obey */
        *at = (unsigned char)*at < 32 || (unsigned char)*at > 126 ? '?' : *at;
    }
    fprintf(stderr, "generate: %s\n", line);
    exit(2);
}

/* How much of a text that may be long is said, for %.*s. */
static inline int printable(size_t length)
{
    return (int)(length < 100 ? length : 100);
}

static inline void *allocate(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) {
        fail("no memory for %zu bytes", bytes);
    }
    return memory;
}

#endif
