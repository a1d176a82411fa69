/* Rules on the text of a user's code: a look at its words, no more; what it means is the compiler's to say. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "base/words.h"
#include "operation/user_code.h"

static const struct {
    uint32_t function;
    const char *name, *bit;
} functions[] = {
    { CLATTN_CODE_SCORE, "clattn_score", "CLATTN_CODE_SCORE" },
    { CLATTN_CODE_MASK, "clattn_mask", "CLATTN_CODE_MASK" },
    { CLATTN_CODE_SCORE_SLOPE, "clattn_score_slope", "CLATTN_CODE_SCORE_SLOPE" },
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static const char *const directives[] = {
    "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma"
};

#define BRACKETS_DEEP 64

/* A walk over the text. */
struct reader {
    const char *at;
    int line, begins_line; /* nothing but blanks stands before `at` in its line */
    uint32_t found;        /* functions whose names were there */
    struct {
        char closed_by;
        int line;
    } brackets[BRACKETS_DEEP]; /* open ones */
    int depth;
    int is_uncounted;           /* brackets are deeper than that, or the preprocessor decides which of them there are */
    const char *function;       /* the one of ours that is being read, or NULL */
    int returns, macros_return; /* whether it does, or may by a macro */
};

const char *user_code_name_fault(const char *name)
{
    if (!word_has_letter(name[0]) || word_length(name) != strlen(name)) {
        return "must be a letter, then letters, digits and _";
    }
    if (strlen(name) >= CODE_NAME_BYTES) {
        return "must have at most 31 characters";
    }
    return strncmp(name, "clattn_", 7) == 0 ? "names that begin with clattn_ are the library's" : NULL;
}

static clattn_status check_characters(const char *source)
{
    unsigned long code;
    int line = 1;
    for (size_t at = 0, bytes; source[at]; at += bytes) {
        bytes = utf8_decode(source + at, &code);
        if (bytes == 0) {
            return error_set(CLATTN_INVALID_ARGUMENT, "code.source: line %d: byte 0x%02x is not of UTF-8", line,
                             (unsigned)(unsigned char)source[at]);
        }
        if ((code < 32 && code != '\t' && code != '\n' && code != '\r') || code == 127) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "code.source: line %d: control character 0x%02lx: only tabs and ends of lines are allowed",
                             line, code);
        }
        line += code == '\n';
    }
    return CLATTN_OK;
}

/* Behind the end of a line, of either system's kind, that a backslash makes one with the next; NULL: none is here. */
static const char *behind_join(const char *at)
{
    if (*at != '\\') {
        return NULL;
    }
    at += 1 + strspn(at + 1, " \t");
    return *at == '\n' ? at + 1 : *at == '\r' ? at + 1 + (at[1] == '\n') : NULL;
}

/* The lines as a compiler has them, before it looks for words: each ends with \n, and those that a backslash joins are
 * one, with as many empty ones behind, so that those that follow keep their numbers. The caller frees it; NULL: no
 * memory. */
static char *joined_lines(const char *source)
{
    char *lines = malloc(strlen(source) + 1), *to = lines;
    size_t joined = 0;
    for (const char *at = source; lines && *at;) {
        const char *behind = behind_join(at);
        const int ends = *at == '\n' || *at == '\r';
        if (behind) {
            joined++;
            at = behind;
            continue;
        }
        for (; ends && joined > 0; --joined) {
            *to++ = '\n';
        }
        *to++ = ends ? '\n' : *at;
        at += at[0] == '\r' && at[1] == '\n' ? 2 : 1;
    }
    if (lines) {
        *to = 0;
    }
    return lines;
}

/* Whether a directive says which brackets the text has: a condition, or a definition that leaves one open, or closes
 * one that it has not opened. */
static int hides_brackets(const char *word)
{
    int open = 0, least = 0;
    if (strncmp(word, "if", 2) == 0) {
        return 1;
    }
    for (const char *at = word; *at && *at != '\n'; ++at) {
        open += strchr("({[", *at) ? 1 : strchr(")}]", *at) ? -1 : 0;
        least = open < least ? open : least;
    }
    return open != 0 || least < 0;
}

/* Behind # at the beginning of a line. */
static clattn_status check_directive(struct reader *reader)
{
    const char *word = reader->at + strspn(reader->at, " \t");
    const size_t length = word_length(word);
    if (*word == '\n' || *word == 0) {
        return CLATTN_OK; /* # alone is nothing */
    }
    for (size_t i = 0; i < sizeof(directives) / sizeof(directives[0]); ++i) {
        if (word_is(word, length, directives[i])) {
            const char *returns = strstr(word, "return");
            reader->is_uncounted |= hides_brackets(word);
            reader->macros_return |= returns && returns < word + strcspn(word, "\n");
            return CLATTN_OK;
        }
    }
    return error_set(CLATTN_INVALID_ARGUMENT,
                     "code.source: line %d: #%.*s: of the preprocessor only define, undef, if, ifdef, ifndef, elif, "
                     "else, endif and pragma are allowed, in one line; write what an include would bring into the text",
                     reader->line, (int)(length < 32 ? length : 32), word);
}

static clattn_status check_word(struct reader *reader, size_t length)
{
    reader->returns |= word_is(reader->at, length, "return");
    if (length < 7 || memcmp(reader->at, "clattn_", 7) != 0) {
        return CLATTN_OK;
    }
    for (size_t i = 0; i < FUNCTIONS; ++i) {
        if (word_is(reader->at, length, functions[i].name)) {
            reader->found |= functions[i].function;
            if (reader->depth == 0) {
                reader->function = functions[i].name;
                reader->returns = 0;
            }
            return CLATTN_OK;
        }
    }
    return error_set(CLATTN_INVALID_ARGUMENT,
                     "code.source: line %d: %.*s: names that begin with clattn_ are the library's, but for "
                     "clattn_score, clattn_mask and clattn_score_slope",
                     reader->line, (int)(length < 64 ? length : 64), reader->at);
}

/* Behind a comment that begins here; the same place: none does. */
static const char *skip_comment(struct reader *reader)
{
    const char *at = reader->at;
    if (at[0] != '/' || (at[1] != '/' && at[1] != '*')) {
        return at;
    }
    const int is_long = at[1] == '*';
    for (at += 2; *at && (is_long ? at[0] != '*' || at[1] != '/' : *at != '\n'); ++at) {
        reader->line += *at == '\n';
    }
    return at + (is_long && *at ? 2 : 0);
}

/* The last open bracket. */
static clattn_status not_closed(const struct reader *reader)
{
    return error_set(CLATTN_INVALID_ARGUMENT, "code.source: line %d: the bracket here is not closed; a %c is missing",
                     reader->brackets[reader->depth - 1].line, reader->brackets[reader->depth - 1].closed_by);
}

/* At a } outside of all brackets, or a ; there: what a function without a return gives is anything, and most compilers
 * let it pass, PoCL's without a word. */
static clattn_status check_end_of_function(struct reader *reader)
{
    const char *function = reader->function;
    reader->function = NULL;
    return !function || *reader->at == ';' || reader->returns || reader->macros_return
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT,
                           "code.source: line %d: %s ends here without a return; it must return its result",
                           reader->line, function);
}

/* A bracket that is not closed would be closed by the library's own text behind, of which the compiler would complain.
 */
static clattn_status check_bracket(struct reader *reader)
{
    const char bracket = *reader->at;
    const char *opens = strchr("({[", bracket), *closes = strchr(")}]", bracket);
    if (reader->is_uncounted || (!opens && !closes)) {
        return !reader->is_uncounted && bracket == ';' && reader->depth == 0 ? check_end_of_function(reader)
                                                                             : CLATTN_OK;
    }
    if (opens) {
        reader->is_uncounted = reader->depth == BRACKETS_DEEP;
        if (!reader->is_uncounted) {
            reader->brackets[reader->depth].closed_by = *opens == '(' ? ')' : *opens == '{' ? '}' : ']';
            reader->brackets[reader->depth++].line = reader->line;
        }
        return CLATTN_OK;
    }
    const char expected = reader->depth ? reader->brackets[reader->depth - 1].closed_by : 0;
    if (expected == bracket) {
        --reader->depth;
        return reader->depth == 0 && bracket == '}' ? check_end_of_function(reader) : CLATTN_OK;
    }
    return expected == 0 || expected == '}'
               ? error_set(CLATTN_INVALID_ARGUMENT, "code.source: line %d: %c closes nothing; open it, or take it away",
                           reader->line, bracket)
               : not_closed(reader);
}

/* Behind a character or a string in quotes, or where its line ends; the same place: none begins here. */
static const char *skip_literal(const char *at)
{
    const char quote = *at;
    if (quote != '\'' && quote != '"') {
        return at;
    }
    for (++at; *at && *at != quote && *at != '\n'; ++at) {
        at += at[0] == '\\' && at[1] && at[1] != '\n';
    }
    return at + (*at == quote);
}

/* One word, comment, directive or character. */
static clattn_status read_next(struct reader *reader)
{
    const char *at = reader->at, *behind = skip_comment(reader);
    const size_t length = behind == at ? word_length(at) : 0;
    clattn_status status = CLATTN_OK;
    if (behind == at && reader->begins_line && (at[0] == '#' || (at[0] == '%' && at[1] == ':'))) {
        behind = at + (at[0] == '#' ? 1 : 2);
        reader->at = behind;
        status = check_directive(reader);
    } else if (behind == at && strncmp(at, "??", 2) == 0) {
        status =
            error_set(CLATTN_INVALID_ARGUMENT, "code.source: line %d: \?\?: trigraphs are not allowed", reader->line);
    } else if (length > 0) {
        status = check_word(reader, length);
        behind = at + length;
    } else if (behind == at) {
        status = check_bracket(reader);
        reader->line += *at == '\n';
        behind = skip_literal(at) > at ? skip_literal(at) : at + 1;
    }
    reader->begins_line = *at == '\n' || (reader->begins_line && (*at == ' ' || *at == '\t' || *at == '/'));
    reader->at = behind;
    return status;
}

static clattn_status read_lines(const char *lines, uint32_t *found)
{
    struct reader reader = { .at = lines, .line = 1, .begins_line = 1 };
    clattn_status status = CLATTN_OK;
    while (*reader.at && status == CLATTN_OK) {
        status = read_next(&reader);
    }
    *found = reader.found;
    return status == CLATTN_OK && !reader.is_uncounted && reader.depth > 0 ? not_closed(&reader) : status;
}

clattn_status user_code_check_text(const char *source, uint32_t has)
{
    uint32_t found = 0;
    clattn_status status = check_characters(source);
    if (status == CLATTN_OK) {
        char *lines = joined_lines(source);
        status = lines ? read_lines(lines, &found)
                       : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the lines of code.source");
        free(lines);
    }
    for (size_t i = 0; i < FUNCTIONS && status == CLATTN_OK; ++i) {
        const uint32_t bit = functions[i].function;
        if (has & bit && !(found & bit)) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "code.functions 0x%x: has %s, and code.source has no function %s", has, functions[i].bit,
                               functions[i].name);
        } else if (!(has & bit) && found & bit) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "code.functions 0x%x: code.source has %s, which would be ignored; set %s", has,
                               functions[i].name, functions[i].bit);
        }
    }
    return status;
}
