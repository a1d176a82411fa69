/* usage: rewrite TARGET FIRST SECOND
 *
 * The text of a first build becomes that of the second (src/program/program_text.h), for the assembler. */
#include <stdio.h>
#include <stdlib.h>

#include "program/program_text.h"

#define TEXT_BYTES_MAX ((size_t)16 << 20)

static int fail(const char *what)
{
    fprintf(stderr, "rewrite: %s\n", what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: rewrite TARGET FIRST SECOND\n");
        return 2;
    }
    char *first = calloc(TEXT_BYTES_MAX + 1, 1);
    FILE *stream = fopen(argv[2], "r");
    if (!first || !stream || fread(first, 1, TEXT_BYTES_MAX, stream) == 0 || fclose(stream) != 0) {
        perror(argv[2]);
        return 1;
    }
    struct text why = TEXT_INIT;
    char *second = program_text_rewrite(first, argv[1], &why);
    if (!second) {
        return fail(why.data ? why.data : "out of memory");
    }
    stream = fopen(argv[3], "w");
    if (!stream || fputs(second, stream) < 0 || fclose(stream) != 0) {
        perror(argv[3]);
        return 1;
    }
    free(first);
    free(second);
    return 0;
}
