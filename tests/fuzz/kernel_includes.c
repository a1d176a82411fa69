/* Kernel sources that include each other: files, each of a line with its name and lines of text, with a line "="
 * between them. The first one is asked for. */
#define _XOPEN_SOURCE 700
#include "program/kernel_source.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "program/embedded_cl.h"

#define FILES_MAX 12
#define TEXT_MAX 4000
#define INCLUDES_MAX 14 /* files that include the next ones twice grow by powers of two */

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; ++at) {
        ++count;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct clattn_embedded_file files[FILES_MAX];
    struct clattn_embedded_table table = { files, 0 };
    char *source = NULL, *text = malloc(size + 1);
    size = size < TEXT_MAX ? size : TEXT_MAX;
    memcpy(text, data, size);
    text[size] = 0;
    const int includes = count_of(text, "#include");
    for (char *at = text; at && table.count < FILES_MAX;) {
        struct clattn_embedded_file *file = &files[table.count];
        char *end = strstr(at, "\n=\n"), *line = strchr(at, '\n');
        if (end) {
            *end = 0;
            end += 3;
        }
        if (!line || line + 1 > text + size) {
            break;
        }
        *line = 0;
        file->name = at;
        file->text = line + 1;
        file->size_bytes = strlen(file->text);
        table.count++;
        at = end;
    }
    if (table.count > 0 && includes <= INCLUDES_MAX &&
        kernel_source(NULL, NULL, &table, files[0].name, &source) == CLATTN_OK) {
        fuzz_must(strncmp(source, "#line 1 \"", 9) == 0, "a source says where it is from");
    }
    free(source);
    free(text);
    return 0;
}
