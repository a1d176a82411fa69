/* Text to tokens and back, by the vocabulary of a GGUF file: byte-level BPE (Sennrich et al., 2016), with the words of
 * GPT-2 and digits one by one, as SmolLM2 has them. */
#ifndef GENERATE_TOKENISER_H
#define GENERATE_TOKENISER_H

#include "gguf.h"

/* A table of texts with a number each. */
struct text_table {
    size_t slots; /* a power of two */
    struct text_entry {
        struct span text; /* at NULL: free */
        int32_t number;
    } * entries;
};

struct tokeniser {
    int32_t count;        /* tokens; their numbers are 0 to count - 1 */
    struct span *texts;   /* in the alphabet of the file, where each byte is a printable character */
    unsigned char *kinds; /* 0: a piece of text; 1: a mark of the model, such as the end of a turn */
    struct text_table numbers, merges;
    int32_t unknown, end;
};

struct tokens {
    int32_t *at;
    int64_t count, room;
};

/* The spans point into the file, which must stay open. */
void tokeniser_open(struct tokeniser *tokeniser, const struct gguf *file);
void tokeniser_close(struct tokeniser *tokeniser);

/* Appends the tokens of a text. Names of marks in it are text too. */
void tokenise(const struct tokeniser *tokeniser, const char *text, size_t length, struct tokens *tokens);

/* Appends the mark of that name, which must be there. */
void token_mark(const struct tokeniser *tokeniser, const char *name, struct tokens *tokens);

/* Is there such a mark? */
int has_mark(const struct tokeniser *tokeniser, const char *name);

void token_append(struct tokens *tokens, int32_t token);

/* The bytes of a token; the caller frees them. They may be a part of a character. */
char *token_text(const struct tokeniser *tokeniser, int32_t token, size_t *length);

#endif
