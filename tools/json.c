#include "json.h"

#include <string.h>

#include "insides.h"

static const char blanks[] = " \t\n\r";
static const char digits[] = "0123456789";

/* ---- checking: each returns what is behind, or sets *wrong and returns NULL ---- */

static const char *wrong_at(const char *at, const char **wrong)
{
    *wrong = at;
    return NULL;
}

static int hex_value(char digit)
{
    const char *found = digit ? strchr("0123456789abcdef", digit >= 'A' && digit <= 'F' ? digit + 32 : digit) : NULL;
    return found ? (int)(found - "0123456789abcdef") : -1;
}

/* The four digits behind \u; -1 where there are none. */
static long unit_of(const char *at)
{
    long unit = 0;
    for (int i = 0; i < 4; i++) {
        int value = hex_value(at[i]);
        if (value < 0) {
            return -1;
        }
        unit = unit << 4 | value;
    }
    return unit;
}

static int is_high(long unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static int is_low(long unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* The character of the escape that begins at the backslash `at`; returns what is behind, NULL where it is none. */
static const char *read_escape(const char *at, unsigned long *code)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
    long unit, second;
    if (letter) {
        *code = (unsigned char)meant[letter - letters];
        return at + 2;
    }
    unit = at[1] == 'u' ? unit_of(at + 2) : -1;
    if (unit < 0 || is_low(unit)) {
        return NULL;
    }
    *code = (unsigned long)unit;
    if (!is_high(unit)) {
        return at + 6;
    }
    second = at[6] == '\\' && at[7] == 'u' ? unit_of(at + 8) : -1;
    *code = 0x10000 + ((unsigned long)(unit - 0xd800) << 10) + (unsigned long)(second - 0xdc00);
    return is_low(second) ? at + 12 : NULL;
}

static const char *check_string(const char *at, const char **wrong)
{
    unsigned long code;
    for (at++; *at != '"';) {
        const char *next = at;
        if (*at == '\\') {
            next = read_escape(at, &code);
        } else if ((unsigned char)*at >= 0x20) {
            next += utf8_decode(at, &code);
        }
        if (!next || next == at) {
            return wrong_at(at, wrong);
        }
        at = next;
    }
    return at + 1;
}

static const char *check_number(const char *at, const char **wrong)
{
    const char *whole = at + (*at == '-'), *part;
    at = whole + strspn(whole, digits);
    if (at == whole || (*whole == '0' && at > whole + 1)) {
        return wrong_at(whole, wrong);
    }
    if (*at == '.') {
        part = at + 1;
        at = part + strspn(part, digits);
        if (at == part) {
            return wrong_at(part, wrong);
        }
    }
    if (*at == 'e' || *at == 'E') {
        part = at + 1 + (at[1] == '-' || at[1] == '+');
        at = part + strspn(part, digits);
        if (at == part) {
            return wrong_at(part, wrong);
        }
    }
    return at;
}

static const char *check_word(const char *at, const char *word, const char **wrong)
{
    return strncmp(at, word, strlen(word)) == 0 ? at + strlen(word) : wrong_at(at, wrong);
}

static const char *check_value(const char *at, int depth, const char **wrong);

/* The items of an object or an array; `closing` is its last character. */
static const char *check_items(const char *at, char closing, int depth, const char **wrong)
{
    at++;
    at += strspn(at, blanks);
    if (*at == closing) {
        return at + 1;
    }
    if (depth == JSON_DEPTH_MAX) {
        return wrong_at(at, wrong);
    }
    for (;; at++) {
        if (closing == '}') {
            at += strspn(at, blanks);
            at = *at == '"' ? check_string(at, wrong) : wrong_at(at, wrong);
            if (!at) {
                return NULL;
            }
            at += strspn(at, blanks);
            if (*at++ != ':') {
                return wrong_at(at - 1, wrong);
            }
        }
        at = check_value(at, depth + 1, wrong);
        if (!at) {
            return NULL;
        }
        at += strspn(at, blanks);
        if (*at == closing) {
            return at + 1;
        }
        if (*at != ',') {
            return wrong_at(at, wrong);
        }
    }
}

static const char *check_value(const char *at, int depth, const char **wrong)
{
    at += strspn(at, blanks);
    switch (*at) {
    case '{':
        return check_items(at, '}', depth, wrong);
    case '[':
        return check_items(at, ']', depth, wrong);
    case '"':
        return check_string(at, wrong);
    case 't':
        return check_word(at, "true", wrong);
    case 'f':
        return check_word(at, "false", wrong);
    case 'n':
        return check_word(at, "null", wrong);
    default:
        return check_number(at, wrong);
    }
}

const char *json_check(const char *text, const char **end)
{
    const char *wrong = NULL;
    *end = check_value(text, 0, &wrong);
    return wrong;
}

/* ---- taking ---- */

static void skip_blanks(char **at)
{
    *at += strspn(*at, blanks);
}

int json_take(char **at, char wanted)
{
    skip_blanks(at);
    if (**at != wanted) {
        return 0;
    }
    ++*at;
    skip_blanks(at);
    return 1;
}

void json_skip(char **at)
{
    const char *end = NULL;
    skip_blanks(at);
    json_check(*at, &end);
    *at += end - *at;
    skip_blanks(at);
}

static char *put_utf8(char *to, unsigned long code)
{
    static const unsigned char first[5] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--) {
        to[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    to[0] = (char)(first[n] | code);
    return to + n;
}

char *json_take_string(char **at)
{
    char *start, *to;
    const char *from;
    skip_blanks(at);
    if (**at != '"') {
        return NULL;
    }
    start = to = *at + 1;
    for (from = start; *from != '"';) {
        unsigned long code = 1;
        if (*from == '\\') { /* never shorter than its character */
            from = read_escape(from, &code);
            to = put_utf8(to, code);
        } else {
            *to++ = *from++;
        }
        if (code == 0) {
            return NULL;
        }
    }
    *at = start + (from + 1 - start);
    *to = 0;
    skip_blanks(at);
    return start;
}

int json_take_integer(char **at, int64_t *value)
{
    const char *digit;
    skip_blanks(at);
    *value = 0;
    for (digit = *at; *digit >= '0' && *digit <= '9' && *value <= (INT64_C(1) << 53); digit++) {
        *value = 10 * *value + (*digit - '0');
    }
    if (digit == *at || strchr(".eE0123456789", *digit) || *value > (INT64_C(1) << 53)) {
        return 0;
    }
    *at += digit - *at;
    skip_blanks(at);
    return 1;
}
