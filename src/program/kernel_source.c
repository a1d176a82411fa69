/* Reads .cl files and puts each `#include "x.clh"` in place where it stands, but for what the text has already behind
 * its guard. Which branch of an #if counts is the compiler's to know, so a header that stands in two of them is put in
 * place twice. */
#include "program/kernel_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/text.h"
#include "program/embedded_cl.h"
#include "program/include_once.h"

#define DEPTH_MAX 32
#define FILE_BYTES_MAX (1 << 20)

struct assembly {
    const char *folder;
    const struct clattn_embedded_table *texts, *own;
    struct text text;
    const char *open[DEPTH_MAX]; /* the file that is being read, behind those that include it */
    size_t depth;
    struct include_once once;
};

static const struct clattn_embedded_file *find_embedded(const struct clattn_embedded_table *table, const char *file)
{
    for (size_t i = 0; table && i < table->count; ++i) {
        if (strcmp(table->files[i].name, file) == 0) {
            return &table->files[i];
        }
    }
    return NULL;
}

static clattn_status read_embedded(const struct clattn_embedded_file *embedded, const char *file, char **content)
{
    if (!embedded) {
        return error_set(CLATTN_INTERNAL, "cl/%s: is not among the embedded kernel files", file);
    }
    *content = calloc(embedded->size_bytes + 1, 1);
    if (!*content) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for cl/%s", file);
    }
    memcpy(*content, embedded->text, embedded->size_bytes);
    return CLATTN_OK;
}

static clattn_status read_stream(FILE *stream, const char *path, char **content)
{
    *content = calloc(FILE_BYTES_MAX + 1, 1);
    if (!*content) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for %s", path);
    }
    const size_t size = fread(*content, 1, FILE_BYTES_MAX + 1, stream);
    if (!ferror(stream) && size <= FILE_BYTES_MAX) {
        (*content)[size] = 0;
        return CLATTN_OK;
    }
    free(*content);
    *content = NULL;
    return error_set(CLATTN_INVALID_ARGUMENT, "kernel file %s: cannot be read, or is over %d bytes", path,
                     FILE_BYTES_MAX);
}

static clattn_status read_file(const char *folder, const char *file, char **content)
{
    char path[4096];
    int length = snprintf(path, sizeof(path), "%s/%s", folder, file);
    errno = ENAMETOOLONG;
    FILE *stream = length > 0 && (size_t)length < sizeof(path) ? regular_file_open(path) : NULL;
    if (!stream && errno == 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "kernel folder %s: %s: must be a regular file", folder, file);
    }
    if (!stream) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "kernel folder %s: cannot read %s (%s); unset CLATTN_CL_DIR to use the embedded "
                         "kernels",
                         folder, file, strerror(errno));
    }
    const clattn_status status = read_stream(stream, path, content);
    fclose(stream);
    return status;
}

static clattn_status read_content(const struct assembly *assembly, const char *file, char **content)
{
    const struct clattn_embedded_file *text = find_embedded(assembly->texts, file);
    const struct clattn_embedded_file *own = text ? text : find_embedded(assembly->own, file);
    if (own || !assembly->folder) {
        return read_embedded(own ? own : find_embedded(&clattn_embedded_files, file), file, content);
    }
    return read_file(assembly->folder, file, content);
}

/* The name inside `#include "name"`, when the line is that. */
static int parse_include(const char *line, size_t length, char name[INCLUDE_NAME_BYTES])
{
    static const char start[] = "#include \"";
    size_t at = sizeof(start) - 1;
    if (length <= at || memcmp(line, start, at) != 0) {
        return 0;
    }
    const char *end = memchr(line + at, '"', length - at);
    size_t size = end ? (size_t)(end - line) - at : 0;
    if (size == 0 || size >= INCLUDE_NAME_BYTES) {
        return 0;
    }
    memcpy(name, line + at, size);
    name[size] = 0;
    return 1;
}

static int is_open(const struct assembly *assembly, const char *file)
{
    for (size_t i = 0; i < assembly->depth; ++i) {
        if (strcmp(assembly->open[i], file) == 0) {
            return 1;
        }
    }
    return 0;
}

static clattn_status append_file(struct assembly *assembly, const char *file);

/* A file that is being read includes itself as nothing, one that was read as an empty line: that is what their guards
 * would leave. */
static clattn_status append_include(struct assembly *assembly, const char *name, const char *file, int next_line)
{
    if (include_once_knows(&assembly->once, name)) {
        text_append(&assembly->text, "\n");
        return CLATTN_OK;
    }
    const clattn_status status = is_open(assembly, name) ? CLATTN_OK : append_file(assembly, name);
    text_append(&assembly->text, "#line %d \"%s\"\n", next_line, file);
    return status;
}

static clattn_status append_lines(struct assembly *assembly, const char *file, const char *content)
{
    clattn_status status = CLATTN_OK;
    int line_number = 1;
    const char *guard = include_guard(content), *last = content;
    assembly->once.guard_end = NULL;
    text_append(&assembly->text, "#line 1 \"%s\"\n", file);
    for (const char *line = content; *line && status == CLATTN_OK; ++line_number) {
        const char *end = strchr(line, '\n'), *next = end ? end + 1 : line + strlen(line);
        const size_t length = (size_t)((end ? end : next) - line);
        char name[INCLUDE_NAME_BYTES];
        if (!assembly->once.in_comment && parse_include(line, length, name)) {
            status = append_include(assembly, name, file, line_number + 1);
        } else {
            include_once_follow(&assembly->once, line, length, guard);
            text_append_bytes(&assembly->text, line, length);
            text_append_bytes(&assembly->text, "\n", 1);
        }
        last = line;
        line = next;
    }
    if (guard && assembly->once.guard_end == last) {
        include_once_add(&assembly->once, file);
    }
    return status;
}

static clattn_status append_file(struct assembly *assembly, const char *file)
{
    char *content;
    if (assembly->depth == DEPTH_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "cl/%s: is included %d files deep: only %d are allowed", file,
                         DEPTH_MAX + 1, DEPTH_MAX);
    }
    clattn_status status = read_content(assembly, file, &content);
    if (status == CLATTN_OK) {
        assembly->open[assembly->depth++] = file;
        status = append_lines(assembly, file, content);
        --assembly->depth;
        free(content);
    }
    return status;
}

clattn_status kernel_source(const char *folder, const struct clattn_embedded_table *texts,
                            const struct clattn_embedded_table *own, const char *file, char **source)
{
    struct assembly assembly = { .folder = folder, .texts = texts, .own = own, .text = TEXT_INIT };
    clattn_status status = append_file(&assembly, file);
    if (status != CLATTN_OK) {
        text_free(&assembly.text);
        return status;
    }
    *source = text_take(&assembly.text);
    return *source ? CLATTN_OK : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for cl/%s", file);
}
