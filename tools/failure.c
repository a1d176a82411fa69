#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

static void record(struct failure *failure, int status, const char *format, va_list arguments)
{
    failure->status = status;
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
}

int failure_misuse(struct failure *failure, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(failure, EXIT_MISUSE, format, arguments);
    va_end(arguments);
    return -1;
}

int failure_failed(struct failure *failure, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(failure, EXIT_FAILED, format, arguments);
    va_end(arguments);
    return -1;
}

int failure_report(const struct failure *failure, const char *command)
{
    fprintf(stderr, "clattn%s%s: ", command ? " " : "", command ? command : "");
    for (const char *at = failure->text; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        fputc((byte < 0x20 && byte != '\n') || byte == 0x7f ? '?' : byte, stderr);
    }
    fputc('\n', stderr);
    return failure->status;
}
