/* Programs that a driver was given, as files and lines. */
#include "taken.h"

#include <stdio.h>
#include <stdlib.h>

struct taken now;

void fail(const char *what)
{
    fprintf(stderr, "programs: %s, %s %s: %s\n", what, now.problem ? now.problem : "", clattn_type_name(now.type),
            clattn_last_error());
    exit(1);
}

static void write_text(int number, const char *suffix, const char *text)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%03d.%s", now.folder, number, suffix);
    FILE *stream = fopen(path, "w");
    if (!stream || fputs(text, stream) < 0 || fclose(stream) != 0) {
        perror(path);
        exit(1);
    }
}

void take(const struct null_kernel *kernel)
{
    if (kernel->program > now.written) {
        now.written = kernel->program;
        write_text(kernel->program, "cl", kernel->source);
        write_text(kernel->program, "options", kernel->options);
    }
    printf("%03d %s %s %s %s %s\n", kernel->program, kernel->name, kernel->file, now.problem,
           clattn_type_name(now.type), now.bar);
}

void begin(const char *problem, clattn_type type, const char *bar)
{
    now.problem = problem;
    now.type = type;
    now.bar = bar;
}
