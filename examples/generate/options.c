#include "options.h"

#include "failure.h"

#include <errno.h>
#include <string.h>

static const char help[] =
    "usage: generate [OPTION...] MODEL.gguf PROMPT...\n"
    "Continues each prompt, always by the likeliest token; several are computed together.\n"
    "\n"
    "  --length N        tokens at most (64)\n"
    "  --raw             continue the text; otherwise it is a user's turn of a chat\n"
    "  --system TEXT     the chat's first words\n"
    "  --numbers         prompts are numbers of tokens, and so is what comes out\n"
    "  --tokens          print the numbers of the prompts' tokens, and end\n"
    "  --perplexity FILE of a text, in place of prompts\n"
    "  --show            colour what the last token attends to; --layer N: in that layer alone\n"
    "  --cache KIND      contiguous, paged (the default) or ring\n"
    "  --page-size N     tokens of a page (16)\n"
    "  --key-type T, --value-type T   float32, float16, bfloat16, q8_0, q4_0, q4_1, q5_0 or q5_1\n"
    "  --window N        a token sees N tokens before it, not all; --pinned N: and the first N\n"
    "CLATTN_DEVICE chooses the device.\n";

struct number_option {
    const char *name;
    int64_t *value, lowest, highest;
};

struct text_option {
    const char *name;
    const char **value;
};

struct flag_option {
    const char *name;
    int *value;
};

static int64_t number(const char *name, const char *text, int64_t lowest, int64_t highest)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < lowest || value > highest) {
        fail("%s %s: must be a whole number from %lld to %lld", name, text, (long long)lowest, (long long)highest);
    }
    return value;
}

static clattn_type type_of(const char *name, const char *text)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16, CLATTN_Q8_0,
                                         CLATTN_Q4_0,    CLATTN_Q4_1,    CLATTN_Q5_0,     CLATTN_Q5_1 };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        if (!strcmp(text, clattn_type_name(types[i]))) {
            return types[i];
        }
    }
    fail("%s %s: must be float32, float16, bfloat16, q8_0, q4_0, q4_1, q5_0 or q5_1", name, text);
}

static enum cache_kind kind_of(const char *text)
{
    static const char *const kinds[] = { "contiguous", "paged", "ring" };
    for (int i = 0; i < 3; ++i) {
        if (!strcmp(text, kinds[i])) {
            return (enum cache_kind)i;
        }
    }
    fail("--cache %s: must be contiguous, paged or ring", text);
}

/* Options with a value. Returns 0 where there is none of that name. */
static int take_value(struct options *options, const char *name, const char *text)
{
    struct cache_options *cache = &options->cache;
    const struct number_option numbers[] = {
        { "--length", &options->length, 1, 1 << 24 },   { "--layer", &options->layer, 0, 1023 },
        { "--page-size", &cache->page_size, 1, 65536 }, { "--window", &cache->window, 1, 1 << 24 },
        { "--pinned", &cache->pinned, 0, 1 << 24 },
    };
    const struct text_option texts[] = { { "--system", &options->system }, { "--perplexity", &options->perplexity } };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        if (!strcmp(name, numbers[i].name)) {
            *numbers[i].value = number(name, text, numbers[i].lowest, numbers[i].highest);
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        if (!strcmp(name, texts[i].name)) {
            *texts[i].value = text;
            return 1;
        }
    }
    if (!strcmp(name, "--key-type")) {
        cache->key_type = type_of(name, text);
    } else if (!strcmp(name, "--value-type")) {
        cache->value_type = type_of(name, text);
    } else if (!strcmp(name, "--cache")) {
        cache->kind = kind_of(text);
    } else {
        return 0;
    }
    return 1;
}

static int take_flag(struct options *options, const char *name)
{
    const struct flag_option flags[] = {
        { "--raw", &options->raw },
        { "--numbers", &options->numbers },
        { "--tokens", &options->tokens },
        { "--show", &options->show },
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); ++i) {
        if (!strcmp(name, flags[i].name)) {
            return *flags[i].value = 1;
        }
    }
    if (!strcmp(name, "--help")) {
        fputs(help, stdout);
        exit(0);
    }
    return 0;
}

static void check_together(const struct options *options)
{
    const struct cache_options *cache = &options->cache;
    if (!options->model || (!options->prompt_count && !options->perplexity)) {
        fail("MODEL and a PROMPT, please; generate --help tells more");
    }
    if (options->perplexity && (options->prompt_count || options->numbers || options->tokens || options->show)) {
        fail("--perplexity goes without prompts, --numbers, --tokens and --show");
    }
    if (options->numbers && options->tokens) {
        fail("--numbers: the prompts are tokens already; --tokens goes without it");
    }
    if (cache->pinned && cache->window < 0) {
        fail("--pinned %lld: without --window a token sees all others", (long long)cache->pinned);
    }
    if (options->layer >= 0 && !options->show) {
        fail("--layer: goes with --show");
    }
}

void options_read(struct options *options, int count, char **arguments)
{
    const struct options start = { .system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
                                   .length = 64,
                                   .layer = -1,
                                   .prompts = arguments,
                                   .cache = { .kind = CACHE_PAGED,
                                              .key_type = CLATTN_FLOAT32,
                                              .value_type = CLATTN_FLOAT32,
                                              .page_size = 16,
                                              .window = -1 } };
    int names_end = 0;
    *options = start;
    for (int i = 1; i < count; ++i) {
        const char *name = arguments[i];
        if (!names_end && !strcmp(name, "--")) {
            names_end = 1;
        } else if (!names_end && !strncmp(name, "--", 2)) {
            if (take_flag(options, name)) {
                continue;
            }
            if (i + 1 == count) {
                fail("%s: there is no such option, or its value is missing; generate --help lists them", name);
            }
            if (!take_value(options, name, arguments[++i])) {
                fail("%s: there is no such option; generate --help lists them", name);
            }
        } else if (!options->model) {
            options->model = name;
        } else {
            options->prompts[options->prompt_count++] = arguments[i]; /* never ahead of i */
        }
    }
    check_together(options);
}
