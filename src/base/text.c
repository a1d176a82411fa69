/* A growing string. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct text *text, size_t extra)
{
    size_t needed = text->length + extra + 1;
    if (needed <= text->capacity) {
        return 1;
    }
    size_t capacity = needed < 256 ? 256 : 2 * needed;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = 1;
        return 0;
    }
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void text_append(struct text *text, const char *format, ...)
{
    if (text->failed) {
        return;
    }
    va_list arguments;
    const size_t room = text->capacity - text->length;
    va_start(arguments, format);
    int length = vsnprintf(text->data ? text->data + text->length : NULL, room, format, arguments);
    va_end(arguments);
    if (length < 0) {
        text->failed = 1;
        return;
    }
    if ((size_t)length >= room) { /* cut off: once more, with room for all of it */
        if (!reserve(text, (size_t)length)) {
            return;
        }
        va_start(arguments, format);
        vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    text->length += (size_t)length;
}

void text_append_bytes(struct text *text, const char *bytes, size_t length)
{
    if (text->failed || !reserve(text, length)) {
        return;
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = 0;
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text)TEXT_INIT;
}

char *text_take(struct text *text)
{
    text_append(text, "%s", "");
    char *data = text->failed ? NULL : text->data;
    if (!data) {
        free(text->data);
    }
    *text = (struct text)TEXT_INIT;
    return data;
}

clattn_status text_give(struct text *text, const char *what, char **result)
{
    *result = text_take(text);
    return *result ? CLATTN_OK : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for %s", what);
}
