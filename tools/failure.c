#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "labels.h"

static void record(struct failure *failure, int status, const char *format, va_list arguments)
{
    failure->status = status;
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    utf8_clean_in_place(failure->text, "");
}

int failure_of_library(struct failure *failure, int status, const char *text)
{
    failure->status = status;
    snprintf(failure->text, sizeof failure->text, "%s", text);
    utf8_clean_in_place(failure->text, "\n");
    return -1;
}

#undef failure_misuse
#undef failure_failed

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
    fprintf(stderr, "clattn%s%s: %s\n", command ? " " : "", command ? command : "", failure->text);
    return failure->status;
}
