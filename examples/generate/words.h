/* Where a text is cut before its bytes are merged: no token reaches from one word into the next. */
#ifndef GENERATE_WORDS_H
#define GENERATE_WORDS_H

#include <stddef.h>

/* Bytes of the first word of a text that is not empty. A digit is a word; else a contraction ('s 't 're 've 'm 'll
 * 'd), a blank and letters, a blank and other characters, or blanks, of which the last one goes to what follows. */
size_t word_length(const char *text, size_t length);

#endif
