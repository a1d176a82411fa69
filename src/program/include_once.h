/* Which headers a text that is being put together has already, whichever branches of its #ifs count: a header whose
 * guard is open around all of it need not be read again where it was read on the way to here. What is read in a branch
 * of an #if is forgotten behind that branch. */
#ifndef CLATTN_SRC_INCLUDE_ONCE_H
#define CLATTN_SRC_INCLUDE_ONCE_H

#include <stddef.h>

#define INCLUDE_NAME_BYTES 64
#define INCLUDES_KNOWN_MOST 128 /* beyond that, files are read again */
#define INCLUDE_IFS_MOST 64     /* open at once; beyond that, nothing is known */

struct open_if {
    size_t known_before;
    int is_guard;
};

struct include_once {
    char known[INCLUDES_KNOWN_MOST][INCLUDE_NAME_BYTES];
    size_t known_count;
    struct open_if ifs[INCLUDE_IFS_MOST];
    size_t if_count;
    const char *guard_end; /* the line that closed a guard last */
    int is_lost;           /* #ifs that do not match, or too many */
    int in_comment;        /* at the start of the next line */
};

/* The line of a file's text with which its guard begins: its first directive, an #ifndef whose name the next line
 * defines. NULL: it has none. */
const char *include_guard(const char *content);

/* Goes over a line of the text; `guard` is that of its file. */
void include_once_follow(struct include_once *once, const char *line, size_t length, const char *guard);

int include_once_knows(const struct include_once *once, const char *file);
void include_once_add(struct include_once *once, const char *file);

#endif
