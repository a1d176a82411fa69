/* A growing string. */
#include "base/text.h"

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

void text_append_list(struct text *text, const char *format, va_list arguments)
{
    va_list again;
    const size_t room = text->capacity - text->length;
    if (text->failed) {
        return;
    }
    va_copy(again, arguments);
    const int length = vsnprintf(text->data ? text->data + text->length : NULL, room, format, arguments);
    if (length < 0) {
        text->failed = 1;
    } else if ((size_t)length < room) {
        text->length += (size_t)length;
    } else if (reserve(text, (size_t)length)) { /* cut off: once more, with room for all of it */
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void text_append(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_append_list(text, format, arguments);
    va_end(arguments);
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
