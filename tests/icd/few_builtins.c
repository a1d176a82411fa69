/* Chooses, of the lines that tests/icd/take_builtins took of the header, those that one source needs. */
#include "few_builtins.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/embedded_cl.h"

extern const struct clattn_embedded_table taken_builtins; /* one file: a line each, conditions and declarations */

static const char begin[] = "#ifdef FEW_BUILTINS\n#undef _OPENCL_H_\n";
static const char end[] = "#pragma OPENCL EXTENSION all : disable\n#endif\n";

static int is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int has_word(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[length])) {
            return 1;
        }
    }
    return 0;
}

/* Whether a text names a function as it is, or as what stands before its number: JOIN(vload, VEC). */
static int names(const char *text, const char *function)
{
    char stem[64];
    snprintf(stem, sizeof(stem), "%.*s", (int)strcspn(function, "0123456789"), function);
    return has_word(text, function) || has_word(text, stem);
}

/* The function that a line declares: the word before its first parenthesis; "" of a condition. */
static void declared(const char *line, char name[64])
{
    const char *stop = line + strcspn(line, "(\n"), *start = stop;
    while (start > line && is_letter(start[-1])) {
        --start;
    }
    snprintf(name, 64, "%.*s", *line == '#' || *stop != '(' ? 0 : (int)(stop - start), start);
}

char *few_builtins_before(const char *source)
{
    const struct clattn_embedded_file *all = &taken_builtins.files[0];
    char *whole = all->size_bytes > 1 ? malloc(sizeof(begin) + all->size_bytes + sizeof(end) + strlen(source)) : NULL;
    if (!whole) {
        return NULL;
    }
    char last[64] = "";
    int is_named = 1;
    char *to = stpcpy(whole, begin);
    for (const char *line = all->text, *after = line; *line; line = after) {
        char name[64];
        declared(line, name);
        after = line + strcspn(line, "\n") + 1;
        if (strcmp(name, last) != 0) { /* overloads follow one another */
            is_named = !*name || names(source, name);
            memcpy(last, name, sizeof(last));
        }
        if (is_named) {
            memcpy(to, line, (size_t)(after - line));
            to += after - line;
        }
    }
    stpcpy(stpcpy(to, end), source);
    return whole;
}

const char *few_builtins_behind(const char *text)
{
    const char *at = strncmp(text, begin, strlen(begin)) == 0 ? strstr(text, end) : NULL;
    return at ? at + strlen(end) : NULL;
}
