/* A growing string, for explanations, device lists and program options. A failed allocation is kept
 * in `failed` and turns later appends into nothing, so that callers check once, at the end. */
#ifndef CLATTN_SRC_TEXT_H
#define CLATTN_SRC_TEXT_H

#include <stdarg.h>
#include <stddef.h>

#include "base/error.h"

struct text {
    char *data; /* never NULL after an append that did not fail; ends with 0 */
    size_t length;
    size_t capacity;
    int failed;
};

#define TEXT_INIT                                                                                                      \
    {                                                                                                                  \
        NULL, 0, 0, 0                                                                                                  \
    }

void text_append(struct text *text, const char *format, ...) CLATTN_PRINTF(2, 3);
void text_append_list(struct text *text, const char *format, va_list arguments) CLATTN_PRINTF(2, 0);
void text_append_bytes(struct text *text, const char *bytes, size_t length); /* as they are; no 0 among them */
void text_free(struct text *text);

/* Hands the string to the caller, who frees it; NULL when an append had failed. */
char *text_take(struct text *text);

/* Hands the string to *result; NULL, and the error "out of memory for WHAT", when an append had failed. */
clattn_status text_give(struct text *text, const char *what, char **result);

#endif
