#include "utf8.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the sequence at `text`, 0 when it is malformed (RFC 3629); *code is its character. */
static size_t decode(const unsigned char *text, unsigned long *code)
{
    static const unsigned long least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] >= 0xf8 || (text[0] >= 0x80 && text[0] < 0xc0)) {
        return 0;
    }
    *code = n == 1 ? text[0] : text[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (text[i] & 0x3f);
    }
    if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)) {
        return 0;
    }
    return n;
}

/* Control characters of both ranges, and those that turn the direction of writing. */
static int is_control(unsigned long code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

char *utf8_clean(const char *text)
{
    char *clean = malloc(strlen(text) + 1), *to = clean;
    while (clean && *text) {
        unsigned long code = 0;
        size_t n = decode((const unsigned char *)text, &code);
        if (n == 0 || is_control(code)) {
            *to++ = '?';
            text += n ? n : 1;
        } else {
            memcpy(to, text, n);
            to += n;
            text += n;
        }
    }
    if (clean) {
        *to = 0;
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
    size_t n = decode((const unsigned char *)text, &code);
    return !*text ? 0 : n ? n : 1;
}

int utf8_columns(const char *text)
{
    unsigned long code = 0;
    int columns = 0;
    for (size_t n; *text; text += n) {
        n = decode((const unsigned char *)text, &code);
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
        size_t n = decode((const unsigned char *)text + bytes, &code);
        columns -= n ? columns_of(code) : 1;
        if (columns < 0) {
            break;
        }
        bytes += n ? n : 1;
    }
    return bytes;
}
