#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "closest.h"
#include "strategy_list.h"

static const struct row {
    const char *name, *value, *help;
    const char *const *words;
} rows[OPTION_IDS] = {
#define OPTION(id, name, value, help) [OPTION_##id] = { name, value, help, NULL },
#define CHOICE(id, name, value, words, help) [OPTION_##id] = { name, value, help, words },
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#include "option_list.h"
#undef OPTION
#undef WORDS
};

const char *option_name(enum option_id id)
{
    return rows[id].name;
}

const char *option_value(enum option_id id)
{
    return rows[id].value;
}

const char *option_help(enum option_id id)
{
    return rows[id].help;
}

const char *const *option_words(enum option_id id)
{
    static const char *const none[] = { NULL };
    if (id == OPTION_STRATEGY) {
        return strategy_list_names();
    }
    return rows[id].words ? rows[id].words : none;
}

/* ---- help ---- */

/* Words of `text` between columns `indent` and 79; begins at column `column`. */
static void print_wrapped(const char *text, int column, int indent)
{
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length > 79) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        } else if (column < indent) {
            printf("%*s", indent - column, "");
            column = indent;
        }
        printf("%.*s", length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

void command_print_help(const struct command *command)
{
    printf("usage: clattn %s %s\n", command->name, command->usage);
    print_wrapped(command->summary, 0, 0);
    for (const struct option_group *group = command->groups; group->title; group++) {
        printf("\n%s\n", group->title);
        for (const enum option_id *id = group->ids; *id != OPTION_NONE; id++) {
            const struct row *row = &rows[*id];
            int column = printf("  --%s%s%s ", row->name, row->value ? " " : "", row->value ? row->value : "");
            if (column > 26) {
                putchar('\n');
                column = 0;
            }
            print_wrapped(row->help, column, 26);
        }
    }
    if (command->notes) {
        printf("\n%s", command->notes);
    }
}

/* ---- parsing ---- */

#define LIST_BYTES 256

/* The words of an option, with commas. Returns list. */
static const char *list_words(enum option_id id, char list[LIST_BYTES])
{
    size_t used = 0;
    list[0] = 0;
    for (const char *const *word = option_words(id); *word && used < LIST_BYTES; word++) {
        used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s", used ? ", " : "", *word);
    }
    return list;
}

static enum option_id find(const struct command *command, const char *name, size_t length)
{
    for (const struct option_group *group = command->groups; group->title; group++) {
        for (const enum option_id *id = group->ids; *id != OPTION_NONE; id++) {
            if (strlen(rows[*id].name) == length && memcmp(rows[*id].name, name, length) == 0) {
                return *id;
            }
        }
    }
    return OPTION_NONE;
}

static int unknown(const struct command *command, const char *name, size_t length, struct failure *failure)
{
    struct closest closest;
    closest_begin(&closest, name, length);
    for (const struct option_group *group = command->groups; group->title; group++) {
        for (const enum option_id *id = group->ids; *id != OPTION_NONE; id++) {
            closest_offer(&closest, rows[*id].name);
        }
    }
    const char *meant = closest_name(&closest);
    return failure_misuse(failure, "--%.*s: is not an option of this command; %s%s%s clattn %s --help", (int)length,
                          name, meant ? "did you mean --" : "", meant ? meant : "", meant ? "? See" : "see",
                          command->name);
}

/* Handles argv[i], an option, and returns how many words it took; -1 with a failure. */
static int parse_option(const struct command *command, int left, char **words, struct options *options,
                        struct failure *failure)
{
    const char *name = words[0] + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    enum option_id id = find(command, name, length);
    const char *value = equals ? equals + 1 : left > 1 ? words[1] : NULL;
    if (id == OPTION_NONE) {
        return unknown(command, name, length, failure);
    }
    if (options->value[id]) {
        return failure_misuse(failure, "--%s: is given twice; give it once", rows[id].name);
    }
    if (!rows[id].value) {
        if (equals) {
            return failure_misuse(failure, "--%s: takes no value", rows[id].name);
        }
        options->value[id] = "";
        return 1;
    }
    if (!value || !*value || (!equals && strncmp(value, "--", 2) == 0)) {
        char list[LIST_BYTES];
        return failure_misuse(failure, "--%s: needs a value: %s%s%s", rows[id].name, rows[id].value,
                              rows[id].words ? ", such as " : "", list_words(id, list));
    }
    options->value[id] = value;
    return equals ? 1 : 2;
}

static int parse_operand(const struct command *command, const char *word, struct options *options,
                         struct failure *failure)
{
    if (!command->operand) {
        return failure_misuse(failure, "%s: this command takes options only; see clattn %s --help", word,
                              command->name);
    }
    if (options->operand) {
        return failure_misuse(failure, "%s: one %s only, which is %s already", word, command->operand,
                              options->operand);
    }
    if (!*word) {
        return failure_misuse(failure, "%s: is empty", command->operand);
    }
    options->operand = word;
    return 1;
}

int options_parse(const struct command *command, int argc, char **argv, struct options *options,
                  struct failure *failure)
{
    int only_operands = 0;
    memset(options, 0, sizeof *options);
    options->words = argv;
    for (int i = 0, taken; i < argc; i += taken) {
        taken = 1;
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = 1;
        } else if (!only_operands && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            command_print_help(command);
            return 1;
        } else if (!only_operands && strncmp(argv[i], "--", 2) == 0) {
            taken = parse_option(command, argc - i, argv + i, options, failure);
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            taken = failure_misuse(failure, "%s: options begin with two dashes; see clattn %s --help", argv[i],
                                   command->name);
        } else {
            taken = parse_operand(command, argv[i], options, failure);
        }
        if (taken < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- values ---- */

static int parse_integer(const char **text, int64_t *value)
{
    char *end;
    long long parsed;
    if (**text != '-' && (**text < '0' || **text > '9')) {
        return -1;
    }
    errno = 0;
    parsed = strtoll(*text, &end, 10);
    if (errno || end == *text) {
        return -1;
    }
    *text = end;
    *value = parsed;
    return 0;
}

int option_integer(const struct options *options, enum option_id id, int64_t least, int64_t most, int64_t *value,
                   struct failure *failure)
{
    const char *text = options->value[id];
    int64_t parsed;
    if (!text) {
        return 0;
    }
    if (parse_integer(&text, &parsed) != 0 || *text || parsed < least || parsed > most) {
        return failure_misuse(failure, "--%s %s: must be an integer from %lld to %lld", rows[id].name,
                              options->value[id], (long long)least, (long long)most);
    }
    *value = parsed;
    return 0;
}

int option_number(const struct options *options, enum option_id id, double *value, struct failure *failure)
{
    const char *text = options->value[id];
    char *end;
    double parsed;
    if (!text) {
        return 0;
    }
    parsed = strtod(text, &end);
    if (end == text || *end || strchr(" \t\r\n\v\f", *text) || !isfinite(parsed)) {
        return failure_misuse(failure, "--%s %s: must be a finite number", rows[id].name, text);
    }
    *value = parsed;
    return 0;
}

int option_number_tensor(const struct options *options, enum option_id id, struct tensor *tensor,
                         struct failure *failure)
{
    const int64_t shape[] = { 1 };
    double value = 0;
    if (option_number(options, id, &value, failure) != 0) {
        return -1;
    }
    if (!isfinite((float)value)) {
        return failure_misuse(failure, "--%s %s: must be finite as float32", rows[id].name, options->value[id]);
    }
    if (tensor_create(tensor, TENSOR_FLOAT32, 1, shape, option_name(id), failure) != 0) {
        return -1;
    }
    tensor_store(tensor, 0, value);
    return 0;
}

const char *option_meant(const struct options *options, enum option_id id, char hint[CLOSEST_HINT])
{
    struct closest closest;
    closest_begin(&closest, options->value[id], strlen(options->value[id]));
    for (const char *const *word = option_words(id); *word; word++) {
        closest_offer(&closest, *word);
    }
    return closest_hint(&closest, hint);
}

/* The word for what NumPy and PyTorch call a type otherwise; other texts are their own. */
static const char *short_name(const char *text)
{
    static const char *const names[][2] = {
        { "float32", "f32" }, { "float16", "f16" },        { "bfloat16", "bf16" },
        { "float64", "f64" }, { "float8_e4m3fn", "e4m3" }, { "float8_e5m2", "e5m2" }
    };
    for (size_t i = 0; text && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i][0], text) == 0) {
            return names[i][1];
        }
    }
    return text;
}

int option_choice(const struct options *options, enum option_id id, int *index, struct failure *failure)
{
    const char *text = options->value[id], *word = short_name(text), *const *words = option_words(id);
    char list[LIST_BYTES], hint[CLOSEST_HINT];
    for (int i = 0; text && words[i]; i++) {
        if (strcmp(words[i], word) == 0) {
            *index = i;
            return 0;
        }
    }
    return text ? failure_misuse(failure, "--%s %s: must be %s%s%s", rows[id].name, text,
                                 option_words(id)[1] ? "one of " : "", list_words(id, list),
                                 option_meant(options, id, hint))
                : 0;
}

int option_integers(const struct options *options, enum option_id id, int64_t *values, size_t capacity, size_t *n,
                    struct failure *failure)
{
    const char *text = options->value[id];
    if (!text) {
        return 0;
    }
    for (*n = 0;;) {
        if (*n == capacity) {
            return failure_misuse(failure, "--%s %s: must be at most %zu integers with commas", rows[id].name,
                                  options->value[id], capacity);
        }
        if (parse_integer(&text, &values[(*n)++]) != 0 || (*text && *text != ',')) {
            return failure_misuse(failure, "--%s %s: must be integers with commas between them", rows[id].name,
                                  options->value[id]);
        }
        if (!*text++) {
            return 0;
        }
    }
}

int option_integer_tensor(const struct options *options, enum option_id id, struct tensor *tensor,
                          struct failure *failure)
{
    const char *text = options->value[id];
    int64_t capacity = 1;
    size_t n = 0;
    if (!text) {
        return 0;
    }
    for (const char *at = text; *at; at++) {
        capacity += *at == ',';
    }
    if (tensor_create(tensor, TENSOR_INT64, 1, &capacity, rows[id].name, failure) != 0) {
        return -1;
    }
    if (option_integers(options, id, tensor->data, (size_t)capacity, &n, failure) == 0) {
        return 0;
    }
    tensor_free(tensor);
    return -1;
}

int text_is_integer_list(const char *text)
{
    return text[strspn(text, "0123456789,-+ ")] == 0;
}

int option_needs(const struct options *options, enum option_id id, const enum option_id *needs, struct failure *failure)
{
    char list[256] = "";
    size_t used = 0;
    if (!options->value[id]) {
        return 0;
    }
    for (const enum option_id *need = needs; *need != OPTION_NONE; need++) {
        if (options->value[*need]) {
            return 0;
        }
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s--%s", need == needs ? "" : " or ", rows[*need].name);
    }
    return failure_misuse(failure, "--%s: is used only with %s; add it, or leave --%s out", rows[id].name, list,
                          rows[id].name);
}
