/* The only place of the library where printf writes decimals. */
#include "base/decimal.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"

static int is_plain(char c)
{
    return ascii_is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || c == '+' || c == '-';
}

/* What is neither digit, letter nor sign is the locale's decimal mark, of one byte or more. */
static const char *with_point(char *text)
{
    char *mark = text;
    while (*mark && is_plain(*mark)) {
        ++mark;
    }
    char *end = mark;
    while (*end && !is_plain(*end)) {
        ++end;
    }
    if (end > mark) {
        *mark = '.';
        memmove(mark + 1, end, strlen(end) + 1);
    }
    return text;
}

const char *decimal_fixed(char text[DECIMAL_BYTES], int digits, double value)
{
    snprintf(text, DECIMAL_BYTES, "%.*f", digits, value);
    return with_point(text);
}

const char *decimal_short(char text[DECIMAL_BYTES], int digits, double value)
{
    snprintf(text, DECIMAL_BYTES, "%.*g", digits, value);
    return with_point(text);
}
