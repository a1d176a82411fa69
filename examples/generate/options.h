/* The command line. */
#ifndef GENERATE_OPTIONS_H
#define GENERATE_OPTIONS_H

#include "cache.h"

struct options {
    const char *model, *system, *perplexity; /* perplexity: a file; NULL: none */
    char **prompts;
    int prompt_count;
    int raw, numbers, tokens, show;
    int64_t length, layer;
    struct cache_options cache; /* sequences, context and shared_rows are found later */
};

/* Ends the program where an option is wrong, or after --help. */
void options_read(struct options *options, int count, char **arguments);

#endif
