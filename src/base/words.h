/* Words of C: letters of ASCII, digits and _, whatever the locale. */
#ifndef CLATTN_SRC_WORDS_H
#define CLATTN_SRC_WORDS_H

#include <string.h>

#include "base/ascii.h"

static inline int word_has_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* How many characters of a word stand at `at`; 0: no word does. */
static inline size_t word_length(const char *at)
{
    size_t length = 0;
    while (word_has_letter(at[length]) || ascii_is_digit(at[length])) {
        ++length;
    }
    return length;
}

static inline int word_is(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

#endif
