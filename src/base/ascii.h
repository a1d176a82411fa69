/* Letters and digits of ASCII, whatever the locale: in Turkish ones tolower('I') is no 'i'. */
#ifndef CLATTN_SRC_ASCII_H
#define CLATTN_SRC_ASCII_H

static inline int ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

#endif
