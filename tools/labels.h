/* Text of files as labels: made safe to print, measured, cut. */
#ifndef CLATTN_TOOLS_LABELS_H
#define CLATTN_TOOLS_LABELS_H

#include <stddef.h>

/* A copy in which control characters and malformed sequences are '?'. The caller frees it; NULL
 * without memory. */
char *utf8_clean(const char *text);

/* Cleans the text where it stands; characters in `kept` ("\n") stay. */
void utf8_clean_in_place(char *text, const char *kept);

/* Terminal columns of a clean text: 0 for combining marks, 2 for East Asian wide characters,
 * else 1. */
int utf8_columns(const char *text);

/* Bytes of the longest beginning of at most `columns` columns. */
size_t utf8_fit(const char *text, int columns);

/* Bytes of the first character of a clean text; 0 at its end. */
size_t utf8_step(const char *text);

#endif
