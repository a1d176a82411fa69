/* A strict reader of JSON (RFC 8259) that needs no memory: a check of the whole text, then values one by one, where
 * they stand. */
#ifndef CLATTN_TOOLS_JSON_H
#define CLATTN_TOOLS_JSON_H

#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 64

/* NULL where the text, which ends with 0, begins with a JSON value in UTF-8; *end is behind it. Otherwise the place
 * where it does not, or is nested deeper than JSON_DEPTH_MAX. */
const char *json_check(const char *text, const char **end);

/* All of these read a text that json_check found good; *at is moved behind what they take, and behind blanks. */

/* Takes this character (of { } [ ] , :) where it comes next. */
int json_take(char **at, char wanted);

/* Takes a string and leaves it where it stood, without its escapes, ended with 0. NULL: no string comes next, or one
 * that has U+0000 inside. */
char *json_take_string(char **at);

/* Takes any value. */
void json_skip(char **at);

/* Takes an integer from 0 to 2^53, written in digits alone; 0 where another value comes next. */
int json_take_integer(char **at, int64_t *value);

#endif
