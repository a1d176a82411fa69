#include "user_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "insides.h"
#include "npy.h"

#define FILE_BYTES_MOST 65536

/* The functions of a text, each by the option that gives it as an expression. */
static const struct {
    const char *name, *head;
    clattn_code_function bit;
    enum option_id option;
} functions[] = {
    { "clattn_score", "NUMBER clattn_score(NUMBER s, ", CLATTN_CODE_SCORE, OPTION_SCORE_TEXT },
    { "clattn_mask", "TRUTH clattn_mask(", CLATTN_CODE_MASK, OPTION_MASK_TEXT },
    { "clattn_score_slope", "NUMBER clattn_score_slope(NUMBER s, ", CLATTN_CODE_SCORE_SLOPE, OPTION_SLOPE_TEXT },
};
#define FUNCTIONS (sizeof functions / sizeof *functions)
#define PARAMETERS "INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n"
#define RETURN "    return "

/* ---- words of the text ---- */

/* Behind blanks and comments. */
static const char *skip_blanks(const char *at)
{
    for (;;) {
        const char *end;
        at += strspn(at, " \t\r\n");
        if (strncmp(at, "//", 2) == 0) {
            at += strcspn(at, "\n");
        } else if (strncmp(at, "/*", 2) == 0) {
            end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* The next word from *at on, which it is left behind; its length, 0 at the end. */
static size_t next_word(const char **at, const char **word)
{
    for (const char *next = skip_blanks(*at); *next; next = skip_blanks(next)) {
        const size_t length = word_length(next);
        if (length > 0) {
            *word = next;
            *at = next + length;
            return length;
        }
        next++;
    }
    return 0;
}

uint32_t user_text_functions(const char *source)
{
    const char *word = source;
    uint32_t found = 0;
    for (size_t length; (length = next_word(&source, &word)) > 0;) {
        for (size_t i = 0; i < FUNCTIONS; i++) {
            found |= word_is(word, length, functions[i].name) ? (uint32_t)functions[i].bit : 0;
        }
    }
    return found;
}

/* ---- what it loads ---- */

static struct user_text_input *find_input(struct user_text_input list[USER_TEXT_MOST], const char *name, size_t length)
{
    for (int i = 0; i < USER_TEXT_MOST; i++) {
        if (word_is(name, length, list[i].name)) {
            return &list[i];
        }
    }
    return NULL;
}

static int add_input(struct user_text_input list[USER_TEXT_MOST], const char *name, size_t length, const char *what,
                     struct failure *failure)
{
    if (find_input(list, name, length)) {
        return 0;
    }
    struct user_text_input *free_one = find_input(list, "", 0);
    if (!free_one || length >= USER_TEXT_NAME_BYTES) {
        return failure_misuse(failure, "%s(%.*s): %s", what, (int)(length < 64 ? length : 64), name,
                              free_one ? "a name has at most 31 characters" : "a text may have eight names of a kind");
    }
    memcpy(free_one->name, name, length);
    return 0;
}

/* The names in LOAD(name, ..) and SCALAR(name). */
static int find_inputs(struct user_text *text, struct failure *failure)
{
    const char *at = text->source, *word = at;
    for (size_t length; (length = next_word(&at, &word)) > 0;) {
        const int is_load = word_is(word, length, "LOAD"), is_scalar = word_is(word, length, "SCALAR");
        const char *open = skip_blanks(at), *name = *open == '(' ? skip_blanks(open + 1) : open;
        if ((is_load || is_scalar) && *open == '(' && word_length(name) > 0 &&
            add_input(is_load ? text->load : text->scalar, name, word_length(name), is_load ? "LOAD" : "SCALAR",
                      failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- the text ---- */

static int count_lines(const struct text *text)
{
    int lines = 1;
    for (size_t i = 0; i < text->length; i++) {
        lines += text->data[i] == '\n';
    }
    return lines;
}

/* An option's text, where it defines the function; else the function whose result it is. */
static int append_part(struct user_text *result, struct text *source, size_t function, struct failure *failure)
{
    const enum option_id id = functions[function].option;
    const char *given = result->options->value[id];
    if (!given) {
        return 0;
    }
    if (user_text_functions(source->length ? source->data : "") & (uint32_t)functions[function].bit) {
        return failure_misuse(failure, "--%s: --score %s has %s already; take one away", option_name(id),
                              result->options->value[OPTION_SCORE], functions[function].name);
    }
    const int is_whole = (user_text_functions(given) & (uint32_t)functions[function].bit) != 0;
    if (!is_whole) {
        text_append(source, "%s" PARAMETERS, functions[function].head);
    }
    result->part[result->parts++] =
        (struct user_text_part){ id, source->length ? count_lines(source) : 1, is_whole ? 0 : (int)strlen(RETURN) };
    text_append(source, is_whole ? "%s\n" : RETURN "%s;\n}\n", given);
    return 0;
}

static int append_file(struct user_text *result, struct text *source, struct failure *failure)
{
    const char *path = result->options->value[OPTION_SCORE];
    uint64_t bytes = 0;
    int descriptor;
    if (!path) {
        return 0;
    }
    if (file_open(path, &descriptor, &bytes, failure) != 0) {
        return -1;
    }
    char *content = calloc(1, FILE_BYTES_MOST + 1);
    int status = content ? 0 : failure_failed(failure, "out of memory");
    if (status == 0 && bytes > FILE_BYTES_MOST) {
        status = failure_misuse(failure, "--score %s: has %llu bytes; a text may have %d", path,
                                (unsigned long long)bytes, FILE_BYTES_MOST);
    }
    if (status == 0) {
        status = file_read(path, descriptor, 0, content, (size_t)bytes, failure);
    }
    if (status == 0 && strlen(content) != bytes) {
        status = failure_misuse(failure, "--score %s: has a byte 0; it must be a text in OpenCL C", path);
    }
    if (status == 0) {
        result->part[result->parts++] = (struct user_text_part){ OPTION_SCORE, 1, 0 };
        text_append(source, "%s\n", content);
    }
    free(content);
    close(descriptor);
    return status;
}

/* ---- --inputs ---- */

static int read_given(struct user_text *text, const char *name, size_t length, const char *value,
                      struct failure *failure)
{
    struct user_text_input *load = find_input(text->load, name, length);
    struct user_text_input *scalar = find_input(text->scalar, name, length);
    struct tensor *tensor = load ? &load->tensor : scalar ? &scalar->tensor : NULL;
    char *end;
    const double number = strtod(value, &end);
    if (!tensor) {
        return failure_misuse(failure, "--inputs %.*s: the text has no LOAD or SCALAR of that name", (int)length, name);
    }
    if (tensor->data) {
        return failure_misuse(failure, "--inputs %.*s: is given twice; give it once", (int)length, name);
    }
    if (*end || end == value) {
        return npy_read(value, tensor, failure);
    }
    if (load) {
        return failure_misuse(failure, "--inputs %.*s=%s: LOAD takes a tensor; give an .npy file", (int)length, name,
                              value);
    }
    if (tensor_create(tensor, TENSOR_FLOAT64, 0, NULL, scalar->name, failure) != 0) {
        return -1;
    }
    tensor_store(tensor, 0, number);
    return 0;
}

static int read_all_given(struct user_text *text, struct failure *failure)
{
    const char *list = text->options->value[OPTION_TEXT_INPUTS];
    while (list && *list) {
        const size_t all = strcspn(list, ","), name = strcspn(list, "=,");
        if (name == 0 || list[name] != '=' || all == name + 1) {
            return failure_misuse(failure, "--inputs %s: must be NAME=FILE or NAME=NUMBER, with commas between them",
                                  text->options->value[OPTION_TEXT_INPUTS]);
        }
        char *value = malloc(all - name);
        if (!value) {
            return failure_failed(failure, "out of memory");
        }
        memcpy(value, list + name + 1, all - name - 1);
        value[all - name - 1] = 0;
        const int status = read_given(text, list, name, value, failure);
        free(value);
        if (status != 0) {
            return -1;
        }
        list += all + (list[all] == ',');
    }
    return 0;
}

int user_text_read(const struct options *options, struct user_text *text, struct failure *failure)
{
    static const enum option_id texts[] = { OPTION_SCORE, OPTION_SCORE_TEXT, OPTION_MASK_TEXT, OPTION_NONE };
    static const enum option_id scores[] = { OPTION_SCORE, OPTION_SCORE_TEXT, OPTION_NONE };
    struct text source = TEXT_INIT;
    text->options = options;
    int status = option_needs(options, OPTION_TEXT_INPUTS, texts, failure) != 0 ||
                         option_needs(options, OPTION_SLOPE_TEXT, scores, failure) != 0
                     ? -1
                     : append_file(text, &source, failure);
    for (size_t i = 0; i < FUNCTIONS && status == 0; i++) {
        status = append_part(text, &source, i, failure);
    }
    if (status == 0 && source.failed) {
        status = failure_failed(failure, "out of memory");
    }
    text->source = status == 0 && source.length ? text_take(&source) : NULL;
    text_free(&source);
    if (!text->source) {
        return status;
    }
    if (!(user_text_functions(text->source) & (CLATTN_CODE_SCORE | CLATTN_CODE_MASK))) {
        return failure_misuse(failure, "--score %s: has no function clattn_score or clattn_mask",
                              options->value[OPTION_SCORE]);
    }
    return find_inputs(text, failure) != 0 ? -1 : read_all_given(text, failure);
}

void user_text_free(struct user_text *text)
{
    for (int i = 0; i < USER_TEXT_MOST; i++) {
        tensor_free(&text->load[i].tensor);
        tensor_free(&text->scalar[i].tensor);
    }
    free(text->source);
    memset(text, 0, sizeof *text);
}
