/* Second texts of programs. */
#include "program/program_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The version of PTX that has warpgroups' products and proxy fences. */
#define VERSION_MAJOR 8
#define VERSION_MINOR 0

#define MARK "//@"

/* What the second text takes from the first. */
struct rewriting {
    const char *target; /* that is wanted */
    int versions, targets, marks;
    struct text text;
};

static int begins(const char *line, size_t length, const char *with)
{
    return length >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

static size_t blanks_of(const char *line, size_t length)
{
    size_t blanks = 0;
    while (blanks < length && (line[blanks] == ' ' || line[blanks] == '\t')) {
        ++blanks;
    }
    return blanks;
}

/* ".version 8.4": at least that which is needed. */
static void put_version(struct rewriting *r, const char *line, size_t length)
{
    int major = 0, minor = 0;
    if (sscanf(line, ".version %d.%d", &major, &minor) == 2) {
        ++r->versions;
    }
    if (major < VERSION_MAJOR || (major == VERSION_MAJOR && minor < VERSION_MINOR)) {
        text_append(&r->text, ".version %d.%d", VERSION_MAJOR, VERSION_MINOR);
    } else {
        text_append_bytes(&r->text, line, length);
    }
}

/* ".target sm_90, texmode_independent": the name, which the wanted one has with a letter behind it. */
static void put_target(struct rewriting *r, const char *line, size_t length)
{
    const size_t word = strlen(".target"), start = word + blanks_of(line + word, length - word);
    const size_t family = strlen(r->target) - 1, end = start + family;
    if (length >= end && memcmp(line + start, r->target, family) == 0 &&
        (length == end || line[end] == ',' || line[end] == ' ' || line[end] == '\r')) {
        ++r->targets;
        text_append_bytes(&r->text, line, start);
        text_append(&r->text, "%s", r->target);
        text_append_bytes(&r->text, line + end, length - end);
    } else {
        text_append_bytes(&r->text, line, length);
    }
}

static void put_line(struct rewriting *r, const char *line, size_t length)
{
    const size_t blanks = blanks_of(line, length), rest = length - blanks;
    if (begins(line, length, ".version")) {
        put_version(r, line, length);
    } else if (begins(line, length, ".target")) {
        put_target(r, line, length);
    } else if (begins(line + blanks, rest, MARK)) {
        ++r->marks;
        text_append_bytes(&r->text, line, blanks);
        text_append_bytes(&r->text, line + blanks + strlen(MARK), rest - strlen(MARK));
    } else {
        text_append_bytes(&r->text, line, length);
    }
}

static int is_whole(const struct rewriting *r, struct text *why)
{
    if (r->versions != 1 || r->targets != 1) {
        text_append(why, "the driver's text of the first build is no PTX for %.*s", (int)strlen(r->target) - 1,
                    r->target);
        return 0;
    }
    if (r->marks == 0) {
        text_append(why, "the driver's text of the first build has no marked instruction (%s)", MARK);
        return 0;
    }
    return 1;
}

char *program_text_rewrite(const char *first, const char *target, struct text *why)
{
    struct rewriting r = { .target = target, .text = TEXT_INIT };
    for (const char *line = first; *line;) {
        const char *end = strchr(line, '\n');
        const size_t length = end ? (size_t)(end - line) : strlen(line);
        put_line(&r, line, length);
        if (end) {
            text_append_bytes(&r.text, "\n", 1);
        }
        line += length + (end != NULL);
    }
    if (r.text.failed || !is_whole(&r, why)) {
        text_free(&r.text);
        return NULL;
    }
    return text_take(&r.text);
}

const char *program_text_line(const char *text, long number, size_t *length)
{
    const char *line = text;
    *length = 0;
    for (long i = 1; line && i < number; ++i) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line || number < 1) {
        return text;
    }
    line += blanks_of(line, strlen(line));
    *length = strcspn(line, "\r\n");
    return line;
}

long program_text_line_in_log(const char *log)
{
    const char *at = strstr(log, "line ");
    return at ? strtol(at + strlen("line "), NULL, 10) : 0;
}
