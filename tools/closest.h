/* "Did you mean": the name that is the fewest edits away from a word that is none: of commands, options,
 * their values, lessons, shells. */
#ifndef CLATTN_TOOLS_CLOSEST_H
#define CLATTN_TOOLS_CLOSEST_H

#include <stddef.h>

struct closest {
    const char *word; /* not ended where length says so */
    size_t length;
    const char *best;
    int edits;
};

void closest_begin(struct closest *closest, const char *word, size_t length);
void closest_offer(struct closest *closest, const char *name);

/* The best of the offers, NULL where even that is no likely slip: more than one edit in three letters. A word that a
 * name begins with is one edit away. */
const char *closest_name(const struct closest *closest);

/* "; did you mean NAME?", to end a message with, or "" where there is no such name. Returns hint. */
#define CLOSEST_HINT 64
const char *closest_hint(const struct closest *closest, char hint[CLOSEST_HINT]);

#endif
