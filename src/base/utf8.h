/* UTF-8 (RFC 3629), one character at a time. The library's JSON and the command's labels are made of it. */
#ifndef CLATTN_SRC_UTF8_H
#define CLATTN_SRC_UTF8_H

#include <stddef.h>

/* Bytes of the sequence at `text`, which ends with 0; 0 when it is malformed. *code is its character. */
size_t utf8_decode(const char *text, unsigned long *code);

#endif
