/* Follows #if, #else and #endif, and comments, which may have such lines in them. */
#include "program/include_once.h"

#include <string.h>

static int is_word(const char *at, const char *end, const char *word)
{
    const size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

static size_t name_length(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

const char *include_guard(const char *content)
{
    static const char start[] = "#ifndef ", next[] = "\n#define ";
    const char *first = content[0] == '#' ? content : strstr(content, "\n#");
    if (first && first[0] == '\n') {
        ++first;
    }
    if (!first || strncmp(first, start, sizeof(start) - 1) != 0) {
        return NULL;
    }
    const char *name = first + sizeof(start) - 1, *line = name + name_length(name);
    const size_t length = (size_t)(line - name);
    if (strncmp(line, next, sizeof(next) - 1) != 0) {
        return NULL;
    }
    const char *defined = line + sizeof(next) - 1;
    return length > 0 && name_length(defined) == length && memcmp(name, defined, length) == 0 ? first : NULL;
}

static void open_if(struct include_once *once, int is_guard)
{
    if (once->if_count == INCLUDE_IFS_MOST) {
        once->is_lost = 1;
        return;
    }
    once->ifs[once->if_count++] = (struct open_if){ once->known_count, is_guard };
}

static void other_branch(struct include_once *once)
{
    if (once->if_count == 0) {
        once->is_lost = 1;
        return;
    }
    struct open_if *last = &once->ifs[once->if_count - 1];
    last->is_guard = 0;
    once->known_count = last->known_before;
}

/* Behind a guard what it had is there: from now, or from when it was read first. */
static void close_if(struct include_once *once, const char *line)
{
    if (once->if_count == 0) {
        once->is_lost = 1;
        return;
    }
    const struct open_if *last = &once->ifs[--once->if_count];
    if (last->is_guard) {
        once->guard_end = line;
    } else {
        once->known_count = last->known_before;
    }
}

static void follow_directive(struct include_once *once, const char *line, const char *end, const char *guard)
{
    const char *at = line + strspn(line, " \t");
    if (at >= end || *at != '#') {
        return;
    }
    ++at;
    at += strspn(at, " \t");
    if (is_word(at, end, "if")) { /* #if, #ifdef, #ifndef */
        open_if(once, line == guard);
    } else if (is_word(at, end, "el")) { /* #else, #elif */
        other_branch(once);
    } else if (is_word(at, end, "endif")) {
        close_if(once, line);
    }
}

/* Behind a string that begins at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (++at; at < end && *at != '"'; ++at) {
        at += *at == '\\' && at + 1 < end;
    }
    return at;
}

static int ends_in_comment(const char *at, const char *end, int in_comment)
{
    for (; at < end; ++at) {
        if (in_comment) {
            if (is_word(at, end, "*/")) {
                in_comment = 0;
                ++at;
            }
        } else if (is_word(at, end, "/*")) {
            in_comment = 1;
            ++at;
        } else if (is_word(at, end, "//")) {
            return 0;
        } else if (*at == '"') {
            at = skip_string(at, end);
        }
    }
    return in_comment;
}

void include_once_follow(struct include_once *once, const char *line, size_t length, const char *guard)
{
    if (!once->in_comment) {
        follow_directive(once, line, line + length, guard);
    }
    once->in_comment = ends_in_comment(line, line + length, once->in_comment);
}

int include_once_knows(const struct include_once *once, const char *file)
{
    for (size_t i = 0; i < once->known_count && !once->is_lost; ++i) {
        if (strcmp(once->known[i], file) == 0) {
            return 1;
        }
    }
    return 0;
}

void include_once_add(struct include_once *once, const char *file)
{
    const size_t length = strlen(file);
    if (once->known_count < INCLUDES_KNOWN_MOST && length < INCLUDE_NAME_BYTES) {
        memcpy(once->known[once->known_count++], file, length + 1);
    }
}
