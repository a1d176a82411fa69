/* The command line of every subcommand: one parser, driven by the rows of option_list.h, and
 * readers for the values. Strict: unknown options, options of another command, repeated options,
 * values that are not wholly a number, and extra operands are errors. */
#ifndef CLATTN_TOOLS_OPTIONS_H
#define CLATTN_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "closest.h"
#include "failure.h"
#include "tensor.h"

enum option_id {
    OPTION_NONE, /* ends a list of ids */
#define OPTION(id, name, value, help) OPTION_##id,
#include "option_list.h"
#undef OPTION
    OPTION_IDS
};

/* Options under one heading of the help. */
struct option_group {
    const char *title;
    enum option_id ids[20]; /* up to OPTION_NONE */
};

struct options {
    const char *value[OPTION_IDS]; /* NULL: not given; "": a switch that was given */
    const char *operand;           /* NULL: not given */
    char *const *words;            /* all of them as they were given, up to NULL */
};

struct command {
    const char *name;
    const char *summary;
    const char *usage;                                                  /* after "clattn NAME " */
    const char *operand;                                                /* its name, "INPUT"; NULL: takes none */
    const struct option_group *groups;                                  /* up to one without title */
    const char *notes;                                                  /* the help's last lines */
    int (*run)(const struct options *options, struct failure *failure); /* 0, or -1 with a failure */
};

/* Fills *options; 1 when help was asked for (and printed). */
int options_parse(const struct command *command, int argc, char **argv, struct options *options,
                  struct failure *failure);

void command_print_help(const struct command *command);

const char *option_name(enum option_id id);  /* without dashes */
const char *option_value(enum option_id id); /* what its value is called; NULL: a switch */
const char *option_help(enum option_id id);

/* The words that its value may be, or that are among them, up to NULL; none: an empty list. */
const char *const *option_words(enum option_id id);

/* What may be meant by a value that is none of these words: as closest_hint. */
const char *option_meant(const struct options *options, enum option_id id, char hint[CLOSEST_HINT]);

/* Values. Each leaves its result alone, and returns 0, when the option was not given. */
int option_integer(const struct options *options, enum option_id id, int64_t least, int64_t most, int64_t *value,
                   struct failure *failure);
int option_number(const struct options *options, enum option_id id, double *value,
                  struct failure *failure); /* finite */
/* Which of its words the value is, counted from 0. */
int option_choice(const struct options *options, enum option_id id, int *index, struct failure *failure);

/* "3,-1,7" as exactly or at most `capacity` integers; *n is how many. */
int option_integers(const struct options *options, enum option_id id, int64_t *values, size_t capacity, size_t *n,
                    struct failure *failure);

/* "3,-1,7" as an int64 tensor of as many integers as there are, which the caller frees. */
int option_integer_tensor(const struct options *options, enum option_id id, struct tensor *tensor,
                          struct failure *failure);

/* A number that is finite in float32, as a tensor of one that the caller frees. */
int option_number_tensor(const struct options *options, enum option_id id, struct tensor *tensor,
                         struct failure *failure);

/* Whether a value looks like a list of integers rather than a name. */
int text_is_integer_list(const char *text);

/* -1 with a failure when `id` was given without one of the ids in `needs` (up to OPTION_NONE). */
int option_needs(const struct options *options, enum option_id id, const enum option_id *needs,
                 struct failure *failure);

#endif
