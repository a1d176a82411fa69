#define _XOPEN_SOURCE 700
#include "labels.h"

#include <stdlib.h>
#include <string.h>

#include "insides.h"

/* Control characters of both ranges, and those that turn the direction of writing. */
static int is_control(unsigned long code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void utf8_clean_in_place(char *text, const char *kept)
{
    char *to = text;
    while (*text) {
        unsigned long code = 0;
        size_t n = utf8_decode(text, &code);
        if ((n == 0 || is_control(code)) && !strchr(kept, *text)) {
            *to++ = '?';
            text += n ? n : 1;
        } else {
            memmove(to, text, n);
            to += n;
            text += n;
        }
    }
    *to = 0;
}

char *utf8_clean(const char *text)
{
    char *clean = strdup(text);
    if (clean) {
        utf8_clean_in_place(clean, "");
    }
    return clean;
}

static int columns_of(unsigned long code)
{
    if ((code >= 0x300 && code < 0x370) || (code >= 0x200b && code <= 0x200d) || (code >= 0xfe00 && code <= 0xfe0f)) {
        return 0;
    }
    return (code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
                   (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00) ||
                   (code >= 0xfe30 && code < 0xfe70) || (code >= 0xff00 && code < 0xff61) ||
                   (code >= 0x1f300 && code < 0x1faff) || (code >= 0x20000 && code < 0x3fffe)
               ? 2
               : 1;
}

size_t utf8_step(const char *text)
{
    unsigned long code;
    size_t n = utf8_decode(text, &code);
    return !*text ? 0 : n ? n : 1;
}

int utf8_columns(const char *text)
{
    unsigned long code = 0;
    int columns = 0;
    for (size_t n; *text; text += n) {
        n = utf8_decode(text, &code);
        columns += n ? columns_of(code) : 1;
        if (!n) {
            n = 1;
        }
    }
    return columns;
}

size_t utf8_fit(const char *text, int columns)
{
    unsigned long code = 0;
    size_t bytes = 0;
    while (text[bytes]) {
        size_t n = utf8_decode(text + bytes, &code);
        columns -= n ? columns_of(code) : 1;
        if (columns < 0) {
            break;
        }
        bytes += n ? n : 1;
    }
    return bytes;
}
